"""ALS at the size of the Netflix Prize: seconds an iteration and test error, tensor cores against exact FP32.

After Tan et al. 2018, section 5: 100 factors, lambda 0.05, the official test set; here on the twin. An iteration is
both half-sweeps with the data resident and the model updated.
"""

import pandas as pd

from gpumf import ALS, gpu
from gpumf.experiments import identity, load_ratings

EXACT = "cumf_cholesky"

PROFILES = {
    "quick": {"data": "ml-100k-twin", "factors": 32, "epochs": 3, "repeats": 1},
    "full": {"data": "netflix-twin", "factors": 100, "epochs": 10, "repeats": 3},
}


def run(data, factors, epochs, repeats):
    """Train an exact solver in FP32 and the tensor-core kernel; without a GPU the exact one on all cores alone.

    Returns
    -------
    DataFrame with a row an epoch: kernel, device, repeat, epoch, seconds (of training alone, summed up), rmse, mae
    (on the official test set, else on a fifth)
    """
    ratings = load_ratings(data)
    train, test = ratings.split(0.2) if ratings.test_mask is None else ratings.official_split()
    frames = []
    for kernel in [EXACT, "tensor_core"] if gpu.available() else ["parallel"]:
        for repeat in range(repeats):
            fitted = ALS(factors, 0.05, kernel=kernel).fit(train, epochs, test)
            frames.append(fitted.history.assign(kernel=kernel, device=fitted.device, repeat=repeat))
    frame = pd.concat(frames, ignore_index=True)[["kernel", "device", "repeat", "epoch", "seconds", "rmse", "mae"]]
    frame.attrs["datasets"] = [identity(ratings)]
    return frame
