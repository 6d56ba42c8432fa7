"""Build the sdist, from that alone the wheel, install it into an empty folder, and train with it away from here.

Nothing is downloaded: the interpreter that runs this has the build tools, and the packages that gpumf needs.
"""

import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

LARGEST = 1_000_000
"""Bytes of the wheel."""

USE = """
import sys
from pathlib import Path
import numpy as np
import gpumf
from gpumf import ALS, backends, suggest
from gpumf.ratings import Ratings, files
from gpumf._util import paths
from gpumf.backends import sources

site, checkout, here = map(Path, sys.argv[1:])
assert Path(gpumf.__file__).is_relative_to(site), gpumf.__file__
in_wheel = {p.relative_to(sources.kernels_folder()) for p in sources.kernels_folder().rglob("*") if p.is_file()}
assert in_wheel == {p.relative_to(checkout / "kernels") for p in (checkout / "kernels").rglob("*") if p.is_file()}
assert (Path(gpumf.__file__).parent / "py.typed").is_file()
assert paths.checkout() is None and not any(f.is_relative_to(site) for f in files.data_folders())

from gpumf.command_line import bench, main
assert not (site / "gpumf_study").exists()
assert bench.reference()["where"].startswith("Recorded on NVIDIA") and main(["info"]) == 0

rng = np.random.default_rng(0)
cells = rng.choice(40 * 30, 600, replace=False)
ratings = Ratings(cells // 30, cells % 30, rng.integers(1, 6, 600), 40, 30, scale=(1, 5))
assert suggest(ratings, 8).measured_on
for device in "cpu", "emulator":
    if device == "emulator" and (why := backends.why_unavailable("emulator")):
        print(f"not tried on the host: {why}")
        continue
    model = ALS(factors=8, device=device).fit(ratings, epochs=2, validation=ratings)
    assert model.history.rmse.iloc[-1] < model.history.rmse.iloc[0]
    items, scores = model.recommend(np.arange(3), k=5)
    assert items.shape == scores.shape == (3, 5) and (scores[:, 0] >= scores[:, -1]).all()
    model.save(here / f"{device}.npz")
    assert np.array_equal(ALS.load(here / f"{device}.npz").predict(3, 4), model.predict(3, 4))
    print(f"ALS trained and recommended on device={device!r}")
"""


def build(kind, source, to):
    """The file that hatchling makes of a source tree."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", kind, "--directory", to]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    (made,) = to.iterdir()
    return made


def main():
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        sdist = build("sdist", ROOT, folder / "sdist")
        with tarfile.open(sdist) as packed:
            packed.extractall(folder / "source", filter="data")
        wheel = build("wheel", folder / "source" / sdist.name.removesuffix(".tar.gz"), folder / "wheel")
        if wheel.stat().st_size > LARGEST:
            sys.exit(f"{wheel.name} has {wheel.stat().st_size} bytes, more than {LARGEST}")
        site, empty = folder / "site", folder / "empty"
        empty.mkdir()
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target", site, wheel]
        subprocess.run(pip, check=True)
        environment = os.environ | {"PYTHONPATH": str(site), "XDG_DATA_HOME": str(empty)}
        environment.pop("GPUMF_DATA", None)
        subprocess.run([sys.executable, "-c", USE, site, ROOT, empty], cwd=empty, env=environment, check=True)
        print(f"{sdist.name} and {wheel.name} are whole.")


if __name__ == "__main__":
    main()
