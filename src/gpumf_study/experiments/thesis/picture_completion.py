"""Pictures completed by ALS from a fifth of their pixels, against filling by neighbors.

Source: thesis, section 7.1, which asks for uses of its algorithm beyond recommending, computer vision among them.
Rows of a picture take the place of users, columns that of items; what is factorized is a pixel's difference from the
mean of the known ones. The nearest known pixel and linear interpolation between known pixels use that neighbors are
alike, which a matrix of low rank does not know. The pictures are those that packages ship.
"""

from importlib import metadata

import numpy as np
import pandas as pd
from matplotlib.cbook import get_sample_data
from PIL import Image
from scipy.interpolate import LinearNDInterpolator, NearestNDInterpolator
from tqdm import tqdm

from gpumf import ALS
from gpumf._util.counter_rng import random_subset
from gpumf.ratings import Ratings
from gpumf_study import figure_style as style
from gpumf_study.claims import Claim

_ALONE = "grace_hopper.jpg"  # comes with Matplotlib, and so with gpumf
_OTHERS = ["astronaut.png", "brick.png", "camera.png", "chelsea.png", "coffee.png"]
_PACKAGE = "scikit-image"
MEAN, MEANS, FACTORIZED = "mean", "row and column means", "ALS"
NEAREST, LINEAR = "nearest known pixel", "linear interpolation"

_TRIED = {
    "quick": {"pictures": [_ALONE], "factors": [8, 12], "regularizations": [3.0, 5.0], "repeats": 1},
    "full": {"pictures": [_ALONE, *_OTHERS], "factors": [4, 8, 12, 16], "regularizations": [2.0, 3.0, 5.0, 8.0],
             "repeats": 5},
}  # fmt: skip
PROFILES = {name: {"side": 128, "known": 0.2, "epochs": 30, **tried} for name, tried in _TRIED.items()}
PROFILES["smoke"] = PROFILES["quick"] | {"side": 64, "factors": [4], "regularizations": [3.0, 5.0], "epochs": 5}


def run(pictures, side, known, repeats, factors, regularizations, epochs):
    """Complete pictures from some of their pixels.

    pictures : list of str, names of files among the sample data of Matplotlib, or else those of scikit-image
    side : int, grey pixels, at least, of the shorter side: a pixel is a square of so many of the file's
    known : float in (0, 1), the share of the pixels that are known
    repeats : int, choices of these pixels, and of the initial factors
    factors, regularizations : lists; the pair is used that is best, when trained on nine tenths of the known pixels,
        on the other tenth

    Return a DataFrame with the metric 'psnr' (decibels) by data (the picture), repeat and variant (see `fillings`),
    x_rows, x_columns (pixels), x_known (how many), and of ALS solver, device, factors and x_regularization
    """
    rows = []
    for name in pictures:
        original = grey(name, side)
        for repeat in tqdm(range(repeats), desc=f"picture completion {name}", leave=False):
            pixels, of_model = completed(original, known, repeat, factors, regularizations, epochs)
            what = {"data": name, "task": "complete", "repeat": repeat, "metric": "psnr"}
            what |= {"x_rows": original.shape[0], "x_columns": original.shape[1], "x_known": pixels.known.sum()}
            for filling, filled in fillings(pixels).items():
                of_filling = of_model if filling == FACTORIZED else {}
                rows.append(what | of_filling | {"variant": filling, "value": psnr(pixels.original, filled)})
    return pd.DataFrame(rows)


def grey(name, side):
    """The grey values of a picture, float32, its shorter side reduced to `side` or a little more.

    Raise FileNotFoundError where neither Matplotlib nor an installed scikit-image has it.
    """
    path = get_sample_data(name, asfileobj=False) if name == _ALONE else _of_package(name)
    picture = Image.open(path).convert("L")
    return np.asarray(picture.reduce(max(1, min(picture.size) // side)), np.float32)


def _of_package(name):
    try:
        return metadata.distribution(_PACKAGE).locate_file(f"skimage/data/{name}")
    except metadata.PackageNotFoundError:
        raise FileNotFoundError(f"{name} comes with {_PACKAGE}: install it with `pip install {_PACKAGE}`") from None


def completed(original, known, seed, factors, regularizations, epochs):
    """Complete one picture from one choice of pixels.

    Return (DataFrame with a row a pixel: row, column, original (grey value, 0 to 255), known, completed (grey value);
    dict of the chosen factors and regularization, the model, its solver and device)
    """
    rows, columns = (index.ravel() for index in np.indices(original.shape))
    values = original.ravel()
    is_known = random_subset(len(values), round(known * len(values)), seed)
    mean = values[is_known].mean(dtype=np.float64)
    pixels = Ratings(rows[is_known], columns[is_known], values[is_known] - mean, *original.shape)

    train, held_out = pixels.split(0.1, seed)
    pairs = [(f, regularization) for f in factors for regularization in regularizations]
    models = [ALS(*pair, biases=False, clip=False, seed=seed) for pair in pairs]
    errors = [model.fit(train, epochs, held_out).history.rmse.iloc[-1] for model in models]
    best = pairs[np.argmin(errors)]
    fitted = ALS(*best, biases=False, clip=False, seed=seed).fit(pixels, epochs)
    found = np.where(is_known, values, np.clip(mean + fitted.predict(rows, columns), 0, 255))
    frame = pd.DataFrame({"row": rows, "column": columns, "original": values, "known": is_known, "completed": found})
    what = dict(zip(("factors", "x_regularization"), best, strict=True))
    return frame, what | {"model": "ALS", "solver": fitted.solver, "device": fitted.device}


def psnr(original, completed):
    """The peak signal-to-noise ratio of grey values from 0 to 255, in decibels; infinite where they are equal."""
    error = np.mean((np.asarray(original, np.float64) - np.asarray(completed, np.float64)) ** 2)
    return float(10 * np.log10(255**2 / error)) if error else float("inf")


def fillings(pixels):
    """A picture with its unknown pixels filled in several ways, from the pixels that `completed` returns.

    Return a dict of arrays or Series of grey values, as the pixels' rows, by name
    """
    known = pixels[pixels.known]
    mean = known.original.mean()
    means = {axis: known.groupby(axis).original.mean() for axis in ("row", "column")}
    of_row, of_column = (pixels[axis].map(of).fillna(mean) for axis, of in means.items())
    places, wanted = known[["row", "column"]].to_numpy(), pixels[["row", "column"]].to_numpy()
    nearest = NearestNDInterpolator(places, known.original)(wanted)
    linear = LinearNDInterpolator(places, known.original)(wanted) if len(known) > 3 else np.full(len(pixels), np.nan)
    return {
        MEAN: pixels.original.where(pixels.known, mean),
        MEANS: pixels.original.where(pixels.known, (of_row + of_column - mean).clip(0, 255)),
        NEAREST: nearest,
        LINEAR: np.where(np.isnan(linear), nearest, linear),  # outside of the known ones' hull
        FACTORIZED: pixels.completed,
    }


def figure(frame):
    """Draw the peak signal-to-noise ratio of the pictures by what fills their unknown pixels: a mark a repeat."""
    figure, ((axis,),) = style.panels(height=0.4 * frame.data.nunique() + 1.8)
    colours = {MEAN: "grey", MEANS: "orange", NEAREST: "sky", LINEAR: "blue", FACTORIZED: "green"}
    for filling, colour in colours.items():
        rows = frame[frame.variant == filling]
        axis.plot(rows.value, rows.data, "o", color=style.COLOURS[colour], alpha=0.6, label=filling)
    axis.set(xlabel="peak signal-to-noise ratio (dB)", ylabel="picture")
    axis.invert_yaxis()
    style.legend(figure, axis, 3)
    return figure


def pictures(pixels):
    """A picture, its known pixels with their mean for the rest, and ALS's, from the pixels of `completed`."""
    filled = fillings(pixels)
    decibels = {name: psnr(pixels.original, values) for name, values in filled.items()}
    panels = {
        "original": pixels.original,
        f"{pixels.known.mean():.0%} of the pixels, else their mean\nPSNR {decibels[MEAN]:.1f} dB": filled[MEAN],
        f"completed by ALS\nPSNR {decibels[FACTORIZED]:.1f} dB": filled[FACTORIZED],
    }
    figure, axes = style.panels(columns=len(panels), height=4.2, sharey=True)
    for axis, (title, values) in zip(axes[0], panels.items(), strict=True):
        image = values.to_numpy(float).reshape(pixels.row.max() + 1, -1)
        axis.imshow(image, cmap="gray", vmin=0, vmax=255, interpolation="nearest")
        axis.grid(False)
        axis.set(title=title, xlabel="column (pixels)")
    axes[0, 0].set_ylabel("row (pixels)")
    return figure


CLAIMS = [
    Claim(f"thesis-other-uses{suffix}", "thesis", "Section 7.1",
          f"Peak signal-to-noise ratio of pictures completed by ALS above that of {filling}, dB; the least gain.",
          metric="difference",
          select={"column": "value", "each": ["data"], "across": "min", "over": {"variant": FACTORIZED},
                  "under": {"variant": filling}}, device="cpu")
    for suffix, filling in (("", MEANS), ("-nearest", NEAREST), ("-linear", LINEAR))
]  # fmt: skip
