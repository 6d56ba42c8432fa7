"""The figures in figures/ that no page of the book draws."""

import shutil

from gpumf_study import figure_style as style
from gpumf_study import figures, results
from support import ROOT


def test_kept_figures_that_no_page_draws_are_those_of_the_recorded_results(tmp_path, monkeypatch, capsys):
    found = figures.on_no_page()
    assert {"cumf_convergence", "cu2rec_variants"} <= set(found) and not {"speedups", "als_versions"} & set(found)
    for folder in ("book", "data"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    shutil.copytree(ROOT / "figures", tmp_path / "figures")
    monkeypatch.setattr(results, "repository", lambda: tmp_path)
    for path in figures.on_no_page().values():
        path.write_text("old")
    figures.main()
    printed = capsys.readouterr().out.split()
    assert printed == [path.relative_to(ROOT).as_posix() for path in found.values()]
    for path in found.values():
        drawn = (tmp_path / path.relative_to(ROOT)).read_text(encoding="utf-8")
        assert style.alike(drawn, path.read_text(encoding="utf-8")), "run `make figures`"
