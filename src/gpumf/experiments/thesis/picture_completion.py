"""Not recommendations only: ALS completes a picture of which a fifth of the pixels is known.

After the thesis, section 7.1, which asks for uses of its algorithm beyond recommending, computer vision among them.
Rows of the picture take the place of users, columns that of items; what is factorized is a pixel's difference from
the mean of the known ones.
"""

import numpy as np
import pandas as pd
from matplotlib.cbook import get_sample_data
from PIL import Image

from gpumf import ALS
from gpumf import figure_style as style
from gpumf.datasets import Ratings
from gpumf.findings import Finding, Open, median
from gpumf.hashing import random_subset

_TRIED = {
    "quick": {"factors": [8, 12], "regularizations": [3.0, 5.0], "seeds": 1},
    "full": {"factors": [4, 8, 12, 16], "regularizations": [2.0, 3.0, 5.0, 8.0], "seeds": 3},
}
PROFILES = {
    name: {"picture": "grace_hopper.jpg", "reduction": 4, "known": 0.2, "epochs": 30, **tried}
    for name, tried in _TRIED.items()
}
PROFILES["smoke"] = PROFILES["quick"] | {"reduction": 8, "factors": [4], "regularizations": [3.0, 5.0], "epochs": 5}


def run(picture, reduction, known, seeds, factors, regularizations, epochs):
    """Complete a picture from some of its pixels.

    Parameters
    ----------
    picture : str, a picture among the sample data that come with Matplotlib
    reduction : int, the side, in pixels, of the squares that become one grey pixel
    known : float in (0, 1), the share of the pixels that are known
    seeds : int, choices of these pixels
    factors, regularizations : lists; the pair is used that is best, when trained on nine tenths of the known pixels,
        on the other tenth
    epochs : int

    Returns
    -------
    DataFrame with a row a pixel and seed: seed, row, column, original (grey value, 0 to 255), known, completed (grey
    value, in the same units), and the chosen factors and regularization
    """
    original = np.asarray(Image.open(get_sample_data(picture)).convert("L").reduce(reduction), np.float32)
    frames = [_completed(original, known, seed, factors, regularizations, epochs) for seed in range(seeds)]
    return pd.concat(frames, ignore_index=True)


def _completed(original, known, seed, factors, regularizations, epochs):
    """The frame of one choice of pixels."""
    rows, columns = (index.ravel() for index in np.indices(original.shape))
    values = original.ravel()
    is_known = random_subset(len(values), round(known * len(values)), seed)
    mean = values[is_known].mean(dtype=np.float64)
    pixels = Ratings(rows[is_known], columns[is_known], values[is_known] - mean, *original.shape)

    train, held_out = pixels.split(0.1, seed)
    pairs = [(f, regularization) for f in factors for regularization in regularizations]
    errors = [ALS(*pair, biases=False).fit(train, epochs, held_out).history.rmse.iloc[-1] for pair in pairs]
    best = pairs[np.argmin(errors)]
    fitted = ALS(*best, biases=False).fit(pixels, epochs)
    completed = np.where(is_known, values, np.clip(mean + fitted.predict(rows, columns), 0, 255))
    return pd.DataFrame(
        {
            "seed": seed,
            "row": rows,
            "column": columns,
            "original": values.astype(int),
            "known": is_known,
            "completed": completed.round(2),
            "factors": best[0],
            "regularization": best[1],
        }
    )


def psnr(original, completed):
    """The peak signal-to-noise ratio of grey values from 0 to 255, in decibels; infinite where they are equal."""
    error = np.mean((np.asarray(original, np.float64) - np.asarray(completed, np.float64)) ** 2)
    return float(10 * np.log10(255**2 / error)) if error else float("inf")


def fillings(frame):
    """The picture with its unknown pixels filled in several ways, from what the frame of `run` has of a seed.

    Returns
    -------
    dict of Series of grey values, as the frame's rows: 'mean' of the known pixels, 'row and column means' (their sum
    less the mean), 'ALS'
    """
    known = frame[frame.known]
    mean = known.original.mean()
    of_row, of_column = (
        frame[axis].map(known.groupby(axis).original.mean()).fillna(mean) for axis in ("row", "column")
    )
    return {
        "mean": frame.original.where(frame.known, mean),
        "row and column means": frame.original.where(frame.known, (of_row + of_column - mean).clip(0, 255)),
        "ALS": frame.completed,
    }


def summary(frame):
    """How well each filling restores the picture.

    Returns
    -------
    DataFrame with a row a filling: filling, psnr (decibels, the mean over the seeds), spread (half of their range)
    """
    rows = [
        (name, psnr(pixels.original, filled))
        for _, pixels in _by_seed(frame)
        for name, filled in fillings(pixels).items()
    ]
    groups = pd.DataFrame(rows, columns=["filling", "psnr"]).groupby("filling", sort=False).psnr
    return groups.agg(psnr="mean", spread=lambda values: np.ptp(values) / 2).reset_index()


def _by_seed(frame):
    """(seed, its pixels) of each; a frame without seeds is of one."""
    return frame.groupby(frame.get("seed", pd.Series(0, frame.index)))


def figure(frame):
    """The picture, its known pixels with their mean for the rest, and what ALS makes of them, of the first seed."""
    frame = next(pixels for _, pixels in _by_seed(frame))
    filled = fillings(frame)
    decibels = summary(frame).set_index("filling").psnr
    panels = {
        "original": frame.original,
        f"{frame.known.mean():.0%} of the pixels, else their mean\nPSNR {decibels['mean']:.1f} dB": filled["mean"],
        f"completed by ALS\nPSNR {decibels['ALS']:.1f} dB": filled["ALS"],
    }
    figure, axes = style.panels(columns=len(panels), height=4.2, sharey=True)
    for axis, (title, values) in zip(axes[0], panels.items(), strict=True):
        image = values.to_numpy(float).reshape(frame.row.max() + 1, -1)
        axis.imshow(image, cmap="gray", vmin=0, vmax=255, interpolation="nearest")
        axis.grid(False)
        axis.set(title=title, xlabel="column (pixels)")
    axes[0, 0].set_ylabel("row (pixels)")
    return figure


def _gain(frame):
    gains = []
    for _, pixels in _by_seed(frame):
        decibels = summary(pixels).set_index("filling").psnr
        gains.append(decibels["ALS"] - decibels["row and column means"])
    return *median(gains), "dB"


FINDINGS = [
    Finding(
        "thesis-other-uses",
        "thesis",
        "Section 7.1",
        "What does ALS do where nothing is recommended? By how much it completes a picture better than the means of "
        "rows and columns.",
        _gain,
        Open(),
    ),
    Finding(
        "thesis-document-clustering",
        "thesis",
        "Section 7.1",
        "Do factors of documents cluster them better than their words do?",
        rule=Open("labelled documents in a package that is there offline; scikit-learn and NLTK download theirs"),
    ),
    Finding(
        "thesis-further-features",
        "thesis",
        "Section 7.1",
        "What do further features, of users and items, add to a matrix factorization?",
        rule=Open("a model of features beside the factors, and its kernels"),
    ),
]
