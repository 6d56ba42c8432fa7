"""What a result depends on, and whether it has changed since."""

import pytest

from gpumf import dependencies, experiments, results
from outcomes import FINDINGS
from support import ROOT


def test_code_is_what_run_reaches_and_not_how_it_is_drawn_or_judged(tmp_path):
    package, kernels = tmp_path / "src/gpumf", tmp_path / "kernels/als"
    files = {
        "__init__.py": "from gpumf.models import ALS, SGD\n",
        "models/__init__.py": (
            "from gpumf.models.sgd import SGD\n\nif TYPE_CHECKING:\n    from gpumf.models.als import ALS\n"
        ),
        "models/als.py": 'from gpumf import hashing\n\n\nclass ALS:\n    source = "als/a.cu"\n',
        "models/sgd.py": 'class SGD:\n    source = "als/b.cu"\n',
        "hashing.py": "",
        "figure_style.py": "",
        "experiments/__init__.py": "def load():\n    return 1\n",
        "experiments/thesis/other.py": "FACTORS = 3\n\ndef stop():\n    return FACTORS\n\ndef unused():\n    pass\n",
        "experiments/thesis/one.py": (
            "from gpumf import ALS\nfrom gpumf import figure_style as style\nfrom gpumf.experiments import load\n"
            "from gpumf.experiments.thesis import other\n\nSIZE = 2\n\n\ndef run():\n"
            '    """What."""\n    return _inner()\n\n\n'
            "def _inner():\n    return ALS, load(), other.stop(), SIZE\n\n\ndef figure():\n    return style\n"
        ),
    }
    for name, text in files.items():
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    kernels.mkdir(parents=True)
    (kernels / "a.cu").write_text('#include "a.cuh"\n')
    (kernels / "a.cuh").write_text("// shared\n")
    (kernels / "b.cu").write_text("")
    before = dependencies.code("one", tmp_path)
    below = {"src/gpumf/models/als.py", "src/gpumf/hashing.py", "kernels/als/a.cu", "kernels/als/a.cuh"}
    assert set(before) == {"run"} | below

    def after(name, old, new):
        path = package / name
        text = path.read_text()
        path.write_text(text.replace(old, new))
        changed = {key for key, value in dependencies.code("one", tmp_path).items() if value != before.get(key)}
        path.write_text(text)
        return changed

    one, other = "experiments/thesis/one.py", "experiments/thesis/other.py"
    assert after(one, "return style", "return None") == set() and after(one, "What.", "What it is.") == set()
    assert after(one, "SIZE = 2", "SIZE = 3") == {"run"} and after(
        one, "_inner():\n    return", "_inner():\n    yield"
    )
    assert after(other, "FACTORS = 3", "FACTORS = 4") == {"run"} and after(other, "pass", "return 1") == set()
    assert after("experiments/__init__.py", "return 1", "return 2") == {"run"}
    assert after("hashing.py", "", "x = 1\n") == {"src/gpumf/hashing.py"}
    assert dependencies.code("two", tmp_path) is None


@pytest.mark.parametrize(("name", "folder"), [("als_versions", "als"), ("sgd_schemes", "sgd"), ("rbm_speed", "rbm")])
def test_all_kernels_of_a_family_are_reached_by_the_experiment_that_times_them(name, folder):
    kernels = {path.relative_to(ROOT).as_posix() for path in (ROOT / "kernels" / folder).rglob("*.cu")}
    assert kernels and kernels <= set(dependencies.code(name))


def test_a_result_is_held_to_its_own_hashes_or_else_to_its_commit(monkeypatch):
    name, now = "theoretical_flops", dependencies.code("theoretical_flops")
    result = results.load(name)

    def changed(**facts):
        facts = {"commit": result.provenance["commit"]} | facts
        return dependencies.changed(results.Result(result.path, result.frame, facts, False))

    assert changed() == [], "that it was moved to another folder since changes nothing"
    assert changed(code=now) == []
    assert changed(code=now | {"run": "other", "kernels/gone.cu": "1"}) == ["kernels/gone.cu", "run"]
    assert changed(commit="0" * 40) is None


def test_a_new_result_carries_the_hashes_of_its_code_and_of_its_rules(tmp_path, monkeypatch):
    code = dependencies.code("theoretical_flops")
    monkeypatch.setattr(dependencies, "code", lambda name: code)
    monkeypatch.setattr(results, "repository", lambda: tmp_path)
    monkeypatch.delenv("GPUMF_RECORD", raising=False)
    facts = experiments.run("theoretical_flops").provenance
    assert facts["code"] == code and facts["rules_sha256"] == {
        "thesis-fig-1.2": FINDINGS["thesis-fig-1.2"].sha256,
    }
