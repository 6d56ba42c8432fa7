"""kernels/README.md: its reading order has every source, and its gains are those of the recorded results."""

import importlib
import re
import sys

import pytest

from gpumf.backends import sources
from gpumf_study import results
from support import ROOT

KERNELS = ROOT / "kernels"


@pytest.fixture
def readme(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "book")
    yield importlib.import_module("readme")
    for name in ("readme", "gains"):
        sys.modules.pop(name)


def test_the_reading_order_has_every_source():
    folder = ROOT / "kernels"
    linked = re.findall(r"\]\(([^)]+\.cuh?)\)", (folder / "README.md").read_text(encoding="utf-8"))
    assert len(set(linked)) == len(linked)
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*.cu*") if path.parent.name != "emulator"}
    assert set(linked) == files


def test_gains_are_ratios_of_medians(readme):
    frame = results.load("als_versions").frame
    frame = frame[(frame.data == "netflix-synthetic") & (frame.factors == 100) & (frame.model == "ALS")]
    frame = frame[frame.variant.fillna("coalesced") == "coalesced"]

    def solve(kernel):
        of_kernel = frame[frame.solver == kernel]
        return sum(of_kernel.seconds[of_kernel.x_step == f"{side} solve"].median() for side in ("users", "items"))

    (row,) = [line for line in readme.gains.table().splitlines() if "direct.cu` | `CHOLESKY=1` |" in line]
    assert f"| {solve('cumf_lu') / solve('cumf_cholesky'):.3g} x | `CHOLESKY=0` |" in row


def test_what_diverged_has_no_gain(readme):
    assert "esgd" in readme.gains.diverged()
    (row,) = [line for line in readme.gains.table().splitlines() if "esgd.cu` | `esgd` |" in line]
    assert "diverged" in row and " x |" not in row


def test_every_row_names_a_source_and_an_earlier_version(readme):
    folder, earlier = sources.kernels_folder(), set()
    for file, version, baseline, _ in readme.gains.VERSIONS:
        assert (folder / file).is_file() and version not in earlier
        assert baseline is None or baseline in earlier
        earlier.add(version)


def test_an_old_table_is_noticed_and_written_again(readme, monkeypatch, tmp_path):
    name = "kernels/README.md"
    current = (ROOT / name).read_text(encoding="utf-8")
    old = re.sub(r"\| [\d.]+ x \|", "| 99 x |", current)
    assert old != current
    (tmp_path / "kernels").mkdir()
    (tmp_path / name).write_text(old, encoding="utf-8")
    monkeypatch.setattr(readme, "ROOT", tmp_path)
    assert readme.main(["--check", name]) == 1
    assert readme.main([name]) == 0
    assert (tmp_path / name).read_text(encoding="utf-8") == current
    assert readme.main(["--check", name]) == 0


def test_headers_have_the_recorded_gains(readme):
    for file in sorted({file for file, *_ in readme.gains.VERSIONS}):
        text = (KERNELS / file).read_text(encoding="utf-8")
        assert "// Measured (make gains)" in text and readme.gains.with_measured(text, file) == text
        old = re.sub(r"(// Measured .*\n(?:// .*\n)?)(// .*)?", r"\1//     fast  9 s", text, count=1)
        assert readme.gains.with_measured(old, file).count("9 s") == 0


def test_what_a_roofline_leaves_is_recorded_or_reckoned_for_the_same_work(readme):
    found, frame = readme.gains.measured(), results.load("als_ladder").frame
    chosen = frame[(frame.variant == "all rows alike") & (frame.factors == 100)]
    chosen = chosen[(chosen.x_step == "iteration") & (chosen.model == "ALS")]
    share = found["tensor_core"].limit / found["tensor_core"].seconds
    assert share == pytest.approx((chosen.x_limit_seconds / chosen.seconds).median(), rel=0.05)
    assert found["fast"].limit == found["hogwild"].limit and 0 < found["fast"].limit < found["fast"].seconds


def test_a_source_without_a_row_gets_one_behind_those_of_its_folder(readme):
    text = (KERNELS / "README.md").read_text(encoding="utf-8")
    assert readme.gains.with_every_source(text) == text
    batch = "a batch of ratings at a time, one thread block a rating, one thread a factor"
    half = "half a sweep of alternating least squares, one half-warp a row (one warp above 16 factors)"
    for name, what in (("sgd/bsgd.cu", batch), ("als/thesis.cu", half)):
        (row,) = [line for line in text.splitlines(keepends=True) if f"]({name})" in line]
        lines = readme.gains.with_every_source(text.replace(row, "")).splitlines()
        place = lines.index(f"| [{name}]({name}) | {what} |")
        assert lines[place - 1].startswith(f"| [{name.split('/')[0]}/") and lines[place + 1] == ""


AUTHORS = {"Kampffmeyer": "thesis", "Greenquist": "cu2rec", "Tan et al.": "cumf", "Li et al.": "newgpusgd",
           "Nassar et al.": "esgd"}  # fmt: skip


def test_headers_name_the_publication_that_schemes_declare(readme):
    published = readme.gains.publications()
    for file in sorted({file for file, *_ in readme.gains.VERSIONS}):
        publication = published[file]
        cited = re.findall(r"^// Source: (.*)", (KERNELS / file).read_text(encoding="utf-8"), re.MULTILINE)
        keys = [key for author, key in AUTHORS.items() if cited and cited[0].startswith(author)]
        assert keys == ([publication.key] if publication else []), file


@pytest.mark.parametrize(("source", "name"), sources.all_kernels())
def test_grid_and_block_stand_beside_the_kernel(source, name):
    """In the comment right above it, or in one above several that says so: `The four kernels.`"""
    text = (KERNELS / source).read_text(encoding="utf-8")
    (kernel,) = re.finditer(rf"__global__ void\s+(?:__launch_bounds__\([^\n]*\)\s+)?{name}\(", text)
    above = text[: kernel.start()]
    blocks = re.findall(r"(?:^//.*\n)+", above, re.MULTILINE)
    adjacent = above[above.rindex(blocks[-1]) + len(blocks[-1]) :].strip() == 'extern "C"'
    shared = [block for block in blocks if re.match(r"// The \w+ kernels\.", block)]
    beside = [*(blocks[-1:] if adjacent else []), *shared]
    assert any(re.search("Grid.*Block|Grid and block", block.replace("\n// ", " "), re.DOTALL) for block in beside)
