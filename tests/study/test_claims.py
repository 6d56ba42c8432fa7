"""Verdicts by the table of criteria, the statistics below them, and what every claim of an experiment has to have."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

from gpumf_study import claims, experiments, metrics, results, spread
from gpumf_study.claims import Claim, Criterion, above, below, near, verdict
from gpumf_study.metrics import Estimate, estimate

INF = float("inf")
CLAIMED = experiments.claims()


def claim(criterion=None, **more):
    facts = {"metric": "ratio", "select": {"column": "seconds", "over": {"who": "a"}, "under": {"who": "b"}}} | more
    return Claim("a-claim", "thesis", "Figure 6.7", "A is faster than B.", criterion=criterion, **facts)


@pytest.mark.parametrize(
    ("criterion", "low", "high", "said"),
    [(near(10, 2), 6, 15, "replicated"), (near(10, 2), 4, 15, "inconclusive"), (near(10, 2), 15, 25, "inconclusive"),
     (near(10, 2), 2, 4, "partly replicated"), (near(10, 2), 21, 40, "partly replicated"),
     (near(10, 2), 0.5, 4, "not replicated"), (near(10, 2), 0.2, 0.5, "not replicated"),
     (near(10, 2), -INF, INF, "inconclusive"), (near(0.1, 2), 0.3, 0.6, "partly replicated"),
     (near(0.1, 2), 0.3, 1.2, "not replicated"), (near(13.5, 1.25, no_effect=0.0), 3, 5, "partly replicated"),
     (near(13.5, 1.25, no_effect=0.0), -5, 5, "not replicated"), (near(-8, 2, no_effect=0.0), -10, -5, "replicated"),
     (near(-8, 2, no_effect=0.0), -3, -1, "partly replicated"), (above(1), 1.1, 2, "replicated"),
     (above(1), 0.9, 2, "inconclusive"), (above(1), 1, 1, "inconclusive"), (above(1), 0.5, 0.9, "not replicated"),
     (below(0.01), -0.1, 0.005, "replicated"), (below(0.01), 0.005, INF, "inconclusive"),
     (below(0.01), 0.02, INF, "not replicated"), (None, -INF, INF, "measured")],
)  # fmt: skip
def test_the_verdict_follows_from_the_interval_and_the_criterion(criterion, low, high, said):
    assert verdict(claim(criterion), Estimate(1.0, low, high, 5)) == said


def test_what_is_not_measured_has_a_verdict_of_its_own():
    found = Estimate(2.0, 1.5, 2.5, 5)
    assert verdict(claim(above(1.0), metric=None, missing="the real ratings"), metrics.NOTHING) == "not testable"
    assert verdict(claim(above(1.0), evidence="built in"), found) == "not evidence"
    assert verdict(claim(above(1.0)), metrics.NOTHING) == "missing"


def test_faulty_claims_are_refused():
    for wrong in ({"evidence": "hearsay"}, {"metric": None}, {"metric": "guess"}):
        with pytest.raises(ValueError, match=r"a-claim: "):
            claim(above(1.0), **wrong)
    for bounds in ((2.0, 1.0, None), (1.0, 2.0, 1.5)):
        with pytest.raises(ValueError, match="bounds"):
            Criterion(*bounds)


def repeats(**of):
    rows = [(who, k, seconds) for who, values in of.items() for k, seconds in enumerate(values)]
    return pd.DataFrame(rows, columns=["who", "repeat", "seconds"]).assign(device="cuda")


@pytest.mark.parametrize("n", [2, 5, *(pytest.param(n, marks=pytest.mark.slow) for n in (3, 10))])
def test_false_alarms_are_at_most_one_in_twenty(n):
    """Of claims that one is faster than another that is equally fast."""
    rng, alarms, draws = np.random.default_rng(n), 0, 600
    of = claim(above(1.0))
    for _ in range(draws):
        a, b = np.exp(0.1 * rng.standard_normal((2, n)))
        alarms += verdict(of, of.estimate(repeats(a=a, b=b))) != "inconclusive"
    assert alarms <= 0.05 * draws


@pytest.mark.parametrize(
    ("freedom", "apart"), [((1.0,), 2.0), ((4.5,), 2.0), ((1.0, 4.5), 5.0)], ids=["CPU", "GPU", "CPU over GPU"]
)
def test_false_alarms_are_as_rare_where_runs_differ_too(freedom, apart):
    """Both sides are ten repeats with a deviation of 1, of a run each, whose own deviation is `apart`; 1 on the GPU.

    A rate of 5 % passes with a probability of 99.9 %.
    """
    rng, draws, alike = np.random.default_rng(7), 2500, len(freedom) == 1
    runs = np.array([apart, apart if alike else 1.0])
    x = runs[:, None] * rng.standard_normal((draws, 2, 1)) + rng.standard_normal((draws, 2, 10))
    known = rng.chisquare(freedom, (draws, len(freedom))) / freedom  # estimated over true variance
    variances = known * (2 * runs[:1] ** 2 if alike else runs**2)
    within = [[metrics._error(side) for side in sides] for sides in x]
    halves = [
        metrics._with_runs(errors, list(zip(of, freedom, strict=True)), 0.95)
        for errors, of in zip(within, variances, strict=True)
    ]
    off = np.abs(np.diff(np.median(x, axis=2))[:, 0])
    assert np.sum(off > halves) <= binom.ppf(0.999, draws, 0.05)
    unaware = np.array([metrics._half_width(errors, 0.95) for errors in within])
    assert np.mean(off > unaware) > 0.3, "repeats of one process alone tell nothing of other processes"


@pytest.mark.parametrize(
    "pairs", [["ab"], ["ab", "cd", "ef"], ["ab", "bc"], ["ab", "ac", "ad", "ae", "ef"]], ids="-".join
)
def test_pairs_that_share_a_run_have_fewer_degrees_of_freedom(pairs):
    effects = np.random.default_rng(3).standard_normal((200_000, 6))
    means = np.mean([(effects[:, ord(a) - 97] - effects[:, ord(b) - 97]) ** 2 for a, b in pairs], axis=0)
    assert spread.freedom(pairs) == pytest.approx(2 * means.mean() ** 2 / means.var(), rel=0.05)


def test_the_spread_between_runs_has_that_of_run_spread(monkeypatch):
    rng, recorded = np.random.default_rng(0), results.recorded

    def between(runs):
        monkeypatch.setattr(
            results, "recorded", lambda name, *of: runs if name == "run_spread" else recorded(name, *of)
        )
        return spread._of_results_in.__wrapped__(None)

    before = between(None)
    effects = rng.normal(0, 0.2, (8, 1)) + rng.normal(0, 0.01, (8, 3)) + np.log([1.0, 20.0, 0.3])
    rows = [("cpu", "a", model, "solver", run, seconds) for run, of in enumerate(np.exp(effects))
            for model, seconds in zip("xyz", of, strict=True)]  # fmt: skip
    frame = pd.DataFrame(rows, columns=["device", "data", "model", "solver", "repeat", "seconds"])
    found = between(dataclasses.replace(results.load("als_versions"), frame=frame))
    own = effects.var(axis=0, ddof=1).mean()
    assert found["cuda"] == before["cuda"] and found["cpu"][1] == before["cpu"][1] + 7
    assert found["cpu"][0] == pytest.approx((before["cpu"][0] * before["cpu"][1] + 7 * own) / found["cpu"][1])


def test_the_variance_is_that_between_runs_and_not_between_work():
    effects, rows = np.random.default_rng(0).normal(0, 0.1, (2000, 2)), []
    for run, of_run in enumerate(effects):
        for device, effect in zip(("cpu", "cuda"), of_run, strict=True):
            scale = 1 if device == "cpu" else 0.1
            rows += [("a", device, "m", solver, run, second * np.exp(scale * effect))
                     for solver, second in (("x", 1.0), ("y", 50.0))]  # fmt: skip
    frame = pd.DataFrame(rows, columns=["data", "device", "model", "solver", "repeat", "seconds"])
    found = spread.of_runs(frame)
    assert found["cpu"] == pytest.approx(0.01, rel=0.1) and found["cuda"] == pytest.approx(1e-4, rel=0.1)


def test_pooled_variances_are_of_all_runs():
    groups = np.random.default_rng(1).normal(0, 3, (2, 5))
    variance, freedom = spread.pooled([(group.var(ddof=1), 4) for group in groups])
    assert variance == pytest.approx(((groups - groups.mean(axis=1, keepdims=True)) ** 2).sum() / 8) and freedom == 8


def test_a_solver_whose_spread_is_known_has_its_own():
    frame = repeats(a=[1.0, 1.0, 1.0], b=[2.0, 2.0, 2.0]).assign(model="SGD", solver="ordered")
    lots = {"column": "seconds", "over": {"who": "b"}, "under": {"who": "a"}}
    pooled = {"cuda": (1e-4, 9)}
    both = pooled | {("cuda", "SGD", "ordered"): (4e-4, 9), ("cpu", "SGD", "ordered"): (1.0, 9)}
    half, own = (np.log(estimate(frame, "ratio", lots, between).high / 2) for between in (pooled, both))
    assert half > 0 and own == pytest.approx(2 * half)
    others = frame.assign(solver="fast")
    assert estimate(others, "ratio", lots, both) == estimate(others, "ratio", lots, pooled)
    several = pd.concat([frame, others])
    assert estimate(several, "ratio", lots, both).high == estimate(several, "ratio", lots, pooled).high


def test_the_spread_between_runs_narrows_no_interval():
    frame = repeats(a=[1.0, 1.3], b=[1.0, 1.01])
    of = claim(above(1.0))
    alone, wider = (estimate(frame, of.metric, of.select, between) for between in (None, {"cuda": (1e-4, 50)}))
    assert wider.low <= alone.low and wider.high >= alone.high


def test_the_spread_between_runs_is_measured():
    between = spread.between_runs()
    assert 0.001 < between["cuda"][0] ** 0.5 < 0.1 and 0.001 < between["cpu"][0] ** 0.5 < 0.3
    found = spread.table()
    on_gpus = found.pair[found.device == "cuda"].unique()
    of_pairs = spread.freedom([spread.PAIRS[pair][:2] for pair in on_gpus])
    assert between["cuda"][1] == of_pairs + results.load("run_spread").frame.repeat.nunique() - 1
    row = claims.evaluate(*next((of, name) for name, of in CLAIMED if of.id == "cumf-fig-5-lu"))
    alone = next(of for _, of in CLAIMED if of.id == "cumf-fig-5-lu").estimate(results.load("als_versions").frame)
    assert row["value"] == alone.value and row["high"] - row["low"] > 2 * (alone.high - alone.low)
    errors = {"column": "value", "over": {"who": "a"}, "under": {"who": "b"}}
    frame = repeats(a=[2.0, 2.1], b=[1.0, 1.1]).rename(columns={"seconds": "value"})
    assert estimate(frame, "ratio", errors, between) == estimate(frame, "ratio", errors)


def test_results_of_two_versions_are_no_pair_of_runs(monkeypatch):
    recorded, before = results.recorded, set(spread.table().pair)
    other = spread.PAIRS[min(before)][1]

    def of_another_version(name, device=None):
        found = recorded(name, device)
        if name != other:
            return found
        packages = found.provenance["packages"] | {"gpumf": "0.0.1"}
        return dataclasses.replace(found, provenance=found.provenance | {"packages": packages})

    monkeypatch.setattr(results, "recorded", of_another_version)
    assert before - set(spread.table().pair) == {pair for pair in before if other in spread.PAIRS[pair][:2]}


def test_a_clear_effect_is_found():
    rng, of = np.random.default_rng(0), claim(above(1.0))
    said = []
    for _ in range(50):
        a, b = np.exp(0.1 * rng.standard_normal((2, 5)))
        said.append(verdict(of, of.estimate(repeats(a=2 * a, b=b))))
    assert said.count("replicated") >= 48


def test_an_unknown_interval_is_inconclusive_and_one_of_equal_repeats_is_not():
    of = claim(above(1.0))
    for frame in (repeats(a=[2.0], b=[1.0, 1.1, 1.2]), repeats(a=[2.0, 2.1], b=[1.0])):
        found = of.estimate(frame)
        assert found.value > 1.5 and (found.low, found.high, found.n) == (-INF, INF, 1)
        assert verdict(of, found) == "inconclusive"
    assert of.estimate(repeats(a=[2.0, 2.0], b=[1.0, 1.0])) == Estimate(2.0, 2.0, 2.0, 2, "x")


def test_metrics_are_of_medians():
    frame = repeats(a=[1.0, 2.0, 9.0], b=[4.0, 4.0, 5.0])
    lots = {"column": "seconds", "over": {"who": "a"}, "under": {"who": "b"}}
    assert estimate(frame, "median", {"column": "seconds", "where": {"who": "a"}}).value == 2
    assert estimate(frame, "ratio", lots).value == 0.5
    assert estimate(frame, "difference", lots).value == -2
    assert estimate(frame, "percent_more", lots).value == -50
    assert np.isnan(estimate(frame, "ratio", lots | {"under": {"who": "c"}}).value)
    for metric in ("median", "ratio", "difference", "percent_more"):
        select = lots | {"where": {"who": ["a", "b"]}}
        found = estimate(frame, metric, select)
        assert found.low < found.value < found.high and found.n >= 3


def test_rows_of_one_repeat_count_once():
    """Epochs of one training tell nothing of how far trainings lie apart."""
    one = pd.concat([repeats(a=[1.0, 1.2]), repeats(a=[1.02, 1.18])])
    found = estimate(one, "median", {"column": "seconds"})
    assert found.n == 2 and found.high - found.low > 1


def test_groups_are_taken_together_by_the_largest_the_least_or_the_median():
    lots = {"column": "seconds", "over": {"who": "a"}, "under": {"who": ["b", "c"]}, "best": "who", "each": ["data"]}
    frame = pd.concat(
        [repeats(a=[k, k + 0.1], b=[1.0, 1.1], c=[5.0, 5.0]).assign(data=f"set {k}") for k in (1, 2, 6)]
        + [repeats(b=[1.0, 1.1]).assign(data="without a")]
    )
    by = {across: estimate(frame, "difference", lots | {"across": across}) for across in ("max", "min", "median")}
    assert [by[across].value for across in by] == pytest.approx([5.0, 0.0, 1.0])
    alone = estimate(frame[frame.data == "set 6"], "difference", lots | {"across": "max"})
    assert by["max"].low < alone.low and by["max"].high > alone.high, "three at once have to be wider"
    once = pd.concat([frame, repeats(a=[3.0], b=[1.0]).assign(data="once")])
    found = estimate(once, "difference", lots | {"across": "max"})
    assert np.isfinite(found.low) and found.high == INF, "the largest is at least as large as a known one"


def test_the_fastest_of_several_is_the_numerator_of_a_ratio():
    select = {"column": "seconds", "over": {"who": ["a", "b"]}, "under": {"who": "c"}, "best": "who"}
    assert estimate(repeats(a=[9.0, 9.0], b=[4.0, 4.0], c=[2.0, 2.0]), "ratio", select).value == 2


def test_a_ratio_of_ratios_has_the_spread_of_all_four():
    select = {"column": "seconds", "over": {"who": "a"}, "under": {"who": "b"}}
    select |= {"here": {"data": "x"}, "there": {"data": "y"}}
    spread = np.linspace(1, 1.1, 5)
    frame = pd.concat([repeats(a=gain * spread, b=spread).assign(data=name) for name, gain in (("x", 6), ("y", 2))])
    found = estimate(frame, "ratio_of_ratios", select)
    here = estimate(frame[frame.data == "x"], "ratio", select)
    assert found.value == pytest.approx(3) and found.high / found.low > here.high / here.low
    assert np.isnan(estimate(frame[frame.data == "x"], "ratio_of_ratios", select).value)


def test_a_median_of_ratios_of_times_has_their_spread_between_runs():
    frame, between = repeats(a=[1.9, 2.0, 2.1]), {"cuda": (0.01, 4.0)}
    found = [
        estimate(frame, "median", {"column": "seconds"} | times, between)
        for times in ({}, {"times": 1}, {"times": 4})
    ]
    wide = [one.high / one.low for one in found]
    assert [one.value for one in found] == [2.0] * 3 and wide[0] < wide[1] < wide[2]
    lots = {"column": "seconds", "over": {"who": "a"}, "under": {"who": "b"}}
    constant = pd.concat([frame, repeats(b=[1.0, 1.0, 1.0])])
    of_column = estimate(frame.assign(x_times=4), "median", {"column": "seconds", "times": "x_times"}, between)
    assert of_column == found[2]
    two = estimate(frame, "median", {"column": "seconds", "times": 2}, between)
    assert (two.low, two.high) == pytest.approx(
        [getattr(estimate(constant, "ratio", lots, between), end) for end in ("low", "high")]
    )


def test_times_of_unknown_devices_have_no_spread_between_runs():
    frame = repeats(a=[2.0, 2.1], b=[1.0, 1.1])
    lots = {"column": "seconds", "over": {"who": "a"}, "under": {"who": "b"}}
    on_cpu = estimate(frame.assign(device="cpu"), "ratio", lots, {"cpu": (0.01, 1.0)})
    assert on_cpu.high > estimate(frame, "ratio", lots, {"cpu": (0.01, 1.0)}).high
    with pytest.raises(ValueError, match="the column device"):
        estimate(frame.drop(columns="device"), "ratio", lots, {"cpu": (0.01, 1.0)})


# What experiments claim


@pytest.mark.parametrize(("experiment", "of"), CLAIMED, ids=[of.id for _, of in CLAIMED])
def test_what_a_claim_takes_is_there(experiment, of):
    """Each selection has rows in the recorded frame, and two that are compared share none."""
    if claims.evaluate(of, experiment)["verdict"] in (claims.MISSING, "not testable"):
        pytest.skip("not recorded, or not to be had")
    devices = [of.device] if of.device is None or isinstance(of.device, str) else of.device
    frame = claims._together([results.recorded(experiment, device) for device in devices])
    frame = frame if of.table is None else of.table(frame)
    taken = metrics.rows(frame, of.select.get("where", {}))
    lots = [metrics.rows(taken, of.select[side]) for side in ("over", "under", "here", "there") if side in of.select]
    assert all(len(lot) for lot in [taken, *lots])
    for one, other in zip(lots[::2], lots[1::2], strict=True):
        assert not set(one.index) & set(other.index)
    assert frame[of.select["column"]].dtype.kind in "if"


@pytest.mark.parametrize("of", [of for _, of in CLAIMED if of.criterion], ids=lambda of: of.id)
def test_every_criterion_can_give_each_verdict(of):
    low, high, none = of.criterion.low, of.criterion.high, of.criterion.no_effect
    ends = [end for end in (low, high) if np.isfinite(end)]
    width = min(abs(ends[0]), abs(ends[-1] - ends[0]) or abs(ends[0])) / 8 or 0.1
    width = min([width, *(abs(end - none) / 8 for end in ends if none is not None)])
    middle = sum(ends) / 2 if len(ends) == 2 else ends[0] + (4 * width if low in ends else -4 * width)
    outside = {end + (-2 * width if end == low else 2 * width) for end in ends}
    centers = {middle, *ends, *outside} | ({none, 2 * none - middle} if none is not None else set())
    said = {verdict(of, Estimate(center, center - width, center + width, 5)) for center in centers}
    given = {"not testable"} if of.missing else {"not evidence"} if of.evidence == "built in" else None
    possible = {"replicated", "inconclusive", "not replicated"} | (
        {"partly replicated"} if none is not None else set()
    )
    assert said == (given or possible)
    assert given or verdict(of, metrics.NOTHING) == claims.MISSING


def test_claims_name_figures_and_tables_of_their_publication():
    known = set(experiments.figures_and_tables()[["source", "figure_or_table"]].itertuples(index=False, name=None))
    for _, of in CLAIMED:
        of_study = of.publication == "gpumf" and of.figure_or_table is None
        section = of_study or of.figure_or_table.startswith("Section")
        assert section or (of.publication, of.figure_or_table) in known, of.id
        if of.published is not None and of.criterion is not None:
            assert of.criterion.low <= of.published <= of.criterion.high, of.id


def test_a_row_names_the_result_and_leaves_out_ends_that_are_unknown(store):
    of = claim(near(10, 2), published=10.0)
    store("measured", repeats(a=[30.0], b=[1.0]))
    row = claims.evaluate(of, "measured")
    assert list(row) == claims.COLUMNS and row["commit"] == "c0ffee" and row["over_published"] == 3
    assert row["source_file"].endswith("thesis/measured.csv") and (row["at_least"], row["at_most"]) == (5, 20)
    assert np.isnan(row["low"]) and np.isnan(row["high"]) and row["verdict"] == "inconclusive"
    assert claims.evaluate(of, "nothing")["verdict"] == "missing"
    frame = claims.table([("measured", of), ("measured", claim(above(1.0)))])
    assert list(frame) == claims.COLUMNS and not np.isinf(frame.at_most.astype(float)).any()


def test_a_claim_over_several_machines_has_the_rows_of_all(store):
    for device, seconds in (("nvidia-h100", 3.0), ("nvidia-h200", 2.0)):
        store("measured", pd.DataFrame({"repeat": [0, 1], "seconds": seconds}), device=device)
    compared = {"over": {"machine": "nvidia-h100"}, "under": {"machine": "nvidia-h200"}}
    of = claim(above(1.0), select={"column": "seconds"} | compared, device=("nvidia-h100", "nvidia-h200"))
    row = claims.evaluate(of, "measured")
    assert row["value"] == 1.5 and row["device"] == "nvidia-h100 nvidia-h200"
    assert row["source_file"].split()[1].startswith("data/results/nvidia-h200/") and row["commit"] == "c0ffee"
    absent = claim(above(1.0), select={"column": "seconds"} | compared, device=("nvidia-h100", "nvidia-b200"))
    assert claims.evaluate(absent, "measured")["verdict"] == "missing"


def test_counts_have_no_spread():
    frame = pd.DataFrame({"share": [0.25, 0.5, np.nan]})
    assert estimate(frame, "exact", {"column": "share", "across": "max"}) == Estimate(0.5, 0.5, 0.5, 2)
    assert estimate(frame.iloc[2:], "exact", {"column": "share", "across": "min"}) is metrics.NOTHING


def test_growth_is_that_of_a_line_through_logarithms():
    frame = pd.DataFrame({"year": [2000, 2001, 2003, 2004], "lead": [1.0, 2.2, 7.3, 16.0]})
    found = estimate(frame, "growth", {"column": "lead", "by": "year"})
    assert found.low < 2 < found.high and found.value == pytest.approx(2, rel=0.05) and found.n == 4
    assert estimate(frame[:2], "growth", {"column": "lead", "by": "year"}) is metrics.NOTHING


def test_equal_repeats_have_an_interval_without_width():
    frame = pd.DataFrame({"solver": ["a"] * 9 + ["b"] * 9, "seconds": [30.0] * 9 + [32.0] * 9})
    found = estimate(frame, "ratio", {"column": "seconds", "over": {"solver": "a"}, "under": {"solver": "b"}})
    assert found.low == found.value == found.high == 0.9375


def test_a_bound_is_on_one_side():
    for made, inside, outside in ((above, [1.5, 9.0], [-3.0, 0.5]), (below, [-3.0, 0.5], [1.5, 9.0])):
        for values, said in ((inside, "replicated"), (outside, "not replicated")):
            for value in values:
                assert verdict(claim(made(1.0)), Estimate(value, value - 0.1, value + 0.1, 5)) == said
