"""Details of experiments that no figure shows: what is fitted, which versions run, which seconds are reported."""

from functools import partial
from types import SimpleNamespace

import pytest

from gpumf import ALS, SGD, ImplicitALS, backends
from gpumf.backends import DeviceError
from gpumf.ratings import synthetic_device
from gpumf_study import experiments
from gpumf_study.experiments.cumf import als_hugewiki, implicit_seconds
from gpumf_study.experiments.gpumf import als_ladder, kernel_counters
from gpumf_study.experiments.thesis import first_comparison, speedups
from support import ragged_ratings


def test_prepared_models_say_their_parameters():
    """So that another default changes no experiment."""
    tables = [
        of for name in experiments.names() for of in vars(experiments.module(name)).values() if isinstance(of, dict)
    ]
    models = [model for table in tables for model in table.values() if isinstance(model, partial)]
    assert {model.func for model in models} >= {ALS, SGD}
    for model in models:
        if model.func in (ALS, SGD):
            assert {"regularization", "biases"} <= model.keywords.keys(), model
            assert model.func is ALS or "learning_rate" in model.keywords, model


@pytest.mark.parametrize(
    ("factors", "capability", "has"),
    [
        (64, "9.0", 0),
        (65, "9.0", 1),
        (81, "9.0", 1),
        (104, "9.0", 1),
        (128, "9.0", 1),
        (129, "9.0", 0),
        (192, "9.0", 0),
        (193, "9.0", 1),
        (193, "8.0", 0),
    ],
)
def test_versions_for_hopper_run_there_with_factors_that_they_take(factors, capability, has):
    device = SimpleNamespace(facts={"compute_capability": capability})
    explicit, implicit = (
        [*als_ladder._versions(model(factors, device="cpu"), device)] for model in (ALS, ImplicitALS)
    )
    assert ("wgmma" in explicit) == has and explicit
    assert ("fetching warps" in explicit) == (capability == "9.0" and factors > 64)
    assert ("rows in eight bits" in explicit) == (capability == "9.0" and 81 <= factors <= 104)
    assert "rows in eight bits" not in implicit and "wgmma" not in implicit
    assert ("fetching warps" in implicit) == (capability == "9.0" and factors > 64)


def test_the_ladder_times_other_solvers_beside_versions_of_one(host, monkeypatch):
    monkeypatch.setattr(als_ladder.backends, "available", lambda: False)
    monkeypatch.setitem(host.facts, "compute_capability", "9.0")
    monkeypatch.setitem(host.facts, "l2_bytes", 0)
    monkeypatch.setattr(
        als_ladder,
        "VERSIONS",
        {name: als_ladder.VERSIONS[name] for name in ("wgmma", "fetching warps", "rows in eight bits")},
    )
    monkeypatch.setattr(
        als_ladder, "load_ratings", lambda name: ragged_ratings(n_users=6, n_items=12, longest=8, seed=1)
    )
    frame = als_ladder.run("ragged", None, [88], [], 1)
    assert dict(zip(frame.variant, frame.solver, strict=True)) == {
        "wgmma": "tensor_core",
        "fetching warps": "warpgroups",
        "rows in eight bits": "warpgroups",
    }
    assert (frame.seconds > 0).all() and len(als_ladder.summary(frame)) == 3


def test_ratings_that_just_fit_are_taken(monkeypatch):
    recipe, f = synthetic_device.RECIPES["hugewiki-small-synthetic"], 4
    needed = 16 * recipe.ratings + (recipe.users + recipe.items) * (4 * f + 2 * (f + 16) + 32)

    def begin(*_, **__):
        raise InterruptedError

    monkeypatch.setattr(als_hugewiki.synthetic_device, "synthetic_ratings", begin)
    for free, expected in ((needed, InterruptedError), (needed - 1, DeviceError)):
        device = SimpleNamespace(name="emulator", free_bytes=lambda free=free: free, synchronize=lambda: None)
        monkeypatch.setattr(als_hugewiki.backends, "device", lambda name, device=device: device)
        with pytest.raises(expected):
            als_hugewiki.run("hugewiki-small-synthetic", f, 1, 1)


def test_whole_fits_are_timed_without_what_is_compiled(monkeypatch):
    fit = ImplicitALS.fit

    def timed(self, *given):
        fit(self, *given).times.end_to_end, self.times.compile = 3.0, 1.0
        return self

    monkeypatch.setattr(ImplicitALS, "fit", timed)
    frame = implicit_seconds.run(**implicit_seconds.PROFILES["smoke"] | {"solvers": ["parallel_cg"]})
    assert frame[frame.phase == "end_to_end"].seconds.tolist() == [2.0]


def test_the_error_that_counts_as_trained_is_the_published_one():
    published = {"douban-synthetic": 0.5732, "jester-1": 0.71}
    assert {data: first_comparison.threshold(data) for data in published} == published
    assert first_comparison.threshold("ml-100k-synthetic") == first_comparison.THRESHOLDS["ml"]


def test_published_parameters_are_those_of_the_thesis():
    assert speedups.arguments("jester-1", "SGD") == {"regularization": 0.06, "learning_rate": 0.016}
    assert speedups.arguments("douban-synthetic", "ALS") == {"regularization": 0.05}
    assert speedups.arguments("ml-1m", "SGD") == speedups.UNPUBLISHED["SGD"]


@pytest.mark.skipif(backends.available(), reason="for machines without a GPU")
def test_counters_say_what_they_need():
    with pytest.raises(DeviceError, match="hardware counters are not available"):
        kernel_counters.run(**kernel_counters.PROFILES["quick"])
