"""What readers can touch holds the numbers of its frames, as JSON that any browser reads, beside a static picture."""

import json
import re
from functools import cache

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from gpumf_study import results, widgets
from gpumf_study.experiments.gpumf import race_steps, sgd_schemes
from gpumf_study.experiments.thesis import crossover
from gpumf_study.figure_style import data_name

EMPTY = Figure(figsize=(1, 1))
MAIN = ["cumf_sgd"]


@cache
def frame(name):
    return results.load(name).frame


def embedded(widget):
    """The data as a browser reads them from the page."""
    (text,) = re.findall(r'<script type="application/json">(.*?)</script>', widget._repr_html_(), re.DOTALL)
    return json.loads(text)


def all_of_them():
    return {
        "race": widgets.race(frame("race_steps"), EMPTY),
        "convergence": widgets.convergence(sgd_schemes.courses(frame("sgd_schemes")), "SGD", EMPTY, MAIN),
        "crossover": widgets.crossover(frame("crossover"), EMPTY),
        "roofline": widgets.roofline(frame("als_versions"), frame("ceilings"), EMPTY),
    }


@pytest.mark.parametrize("kind", all_of_them())
def test_a_page_holds_the_data_and_a_picture_with_words(kind):
    widget = all_of_them()[kind]
    html = widget._repr_html_()
    assert embedded(widget) == widget.data and f'data-kind="{kind}"' in html
    alt = re.search(r'<img src="data:image/svg\+xml,[^"]+" alt="([^"]+)"', html)[1]
    assert alt == repr(widget) and len(alt.split()) > 8
    assert len(json.dumps(widget.data)) < 60_000, "a page loads quickly"


def test_no_text_of_the_data_ends_its_element():
    widget = widgets.Widget("race", {"name": "</script><b>"}, EMPTY, "a < b")
    html = widget._repr_html_()
    assert embedded(widget) == widget.data and html.count("</script>") == 1 and 'alt="a &lt; b"' in html


def test_an_order_leaves_what_the_kernel_left():
    steps = frame("race_steps")
    data = widgets.race(steps, EMPTY).data
    steps = steps.rename(columns=lambda name: name.removeprefix("x_"))
    assert {one["outcome"] for one in data["orders"]} == set(steps.outcome)
    for one in data["orders"]:
        writes = [step["value"] for step in one["steps"] if (step["cell"], step["access"]) == ("p", "write")]
        recorded = steps[steps.outcome == one["outcome"]]
        of_first = recorded[(recorded.step == 0) & (recorded.group == one["first"])].value
        assert writes[-1] == pytest.approx(of_first.iloc[0], abs=1e-4)
        assert len(one["steps"]) == recorded.step.max() + 1
    lost = [one for one in data["orders"] if one["outcome"] != "both count"]
    reads = [[s["value"] for s in one["steps"] if (s["cell"], s["access"]) == ("p", "read")] for one in lost]
    assert all(values == [data["user"]] * 2 for values in reads), "both read before either has written"


def test_lines_are_medians_over_repeats():
    runs = sgd_schemes.courses(frame("sgd_schemes"))
    data = widgets.convergence(runs, "SGD", EMPTY, MAIN, metric="mae").data
    assert data["metric"] == "MAE" and set(data["sets"]) == {data_name(name) for name in runs.data.unique()}
    (line,) = [line for line in data["sets"][data_name("ml-100k")] if line["name"] == "CuMF_SGD"]
    of_line = runs[(runs.data == "ml-100k") & (runs.scheme == "cumf_sgd")]
    expected = of_line[of_line.epoch == 7].median(numeric_only=True)
    at = line["epochs"].index(7)
    assert line["errors"][at] == pytest.approx(expected.mae, rel=1e-4)
    assert line["seconds"][at] == pytest.approx(expected.seconds, rel=1e-4)
    assert line["main"] and line["epochs"][0] == 1 and line["on"] == "cuda"


def test_what_diverged_is_missing():
    runs = sgd_schemes.courses(frame("sgd_schemes"))
    of = (runs.data == "ml-100k") & (runs.scheme == "hogwild") & (runs.epoch > 3)
    runs.loc[of, "rmse"] = np.nan
    lines = widgets.convergence(runs, "SGD", EMPTY, MAIN).data["sets"][data_name("ml-100k")]
    (line,) = [line for line in lines if line["name"] == "Hogwild"]
    assert [error is None for error in line["errors"]] == [epoch > 3 for epoch in line["epochs"]]


def test_settings_are_those_with_a_winner():
    table = crossover.summary(frame("crossover"))
    table = table[(table.variant == "fastest") & table.ratio.notna()]
    settings = widgets.crossover(frame("crossover"), EMPTY).data["settings"]
    assert len(settings) == len(table)
    for one, row in zip(settings, table.itertuples(), strict=True):
        assert (one["data"], one["factors"]) == (data_name(row.data), row.factors)
        assert one["ratio"] == pytest.approx(row.ratio, rel=0.01) and (one["ratio"] > 1) == (row.ratio > 1)
        row_ratings = one["density"] * one["users"] * one["items"] / (one["users"] + one["items"])
        assert row_ratings == pytest.approx(one["row"], rel=0.02), "as the sliders compute it"
    won = set(zip(table.data, table.density, table.factors, strict=True))
    counting = crossover.counting(frame("crossover"))
    counted = set(zip(counting.data, counting.x_density, counting.factors, strict=True)) & won
    assert {one["counts"] for one in settings} == {True, False}
    assert sum(one["counts"] for one in settings) == len(counted)


def test_settings_that_do_not_count_are_gray_and_the_legend_says_why():
    figure = crossover.figure(frame("crossover"))
    marks = [line for line in figure.axes[0].lines if len(line.get_xdata())]
    counted = [line for line in marks if line.get_color() != "0.8"]
    assert len(counted) == len(crossover.judged(frame("crossover"))) == len(figure.axes[0].texts) < len(marks)
    assert any("not counted: biases" in text.get_text() for text in figure.legends[0].get_texts())


def test_marks_stand_under_their_roofs():
    data = widgets.roofline(frame("als_versions"), frame("ceilings"), EMPTY).data
    recorded = frame("ceilings").set_index(["device", "metric"]).value
    assert data["roofs"]["fp16"] == pytest.approx(recorded["cuda", "fp16_flops"], rel=1e-3)
    for setting in data["settings"]:
        for version in setting["versions"]:
            assert [step["side"] for step in version["steps"]] == ["users", "items"]
            for step in version["steps"]:
                assert step["gathered"] < step["intensity"]
                roof = min(data["roofs"][version["products"]], step["intensity"] * data["roofs"]["bandwidth"])
                assert 0 < step["rate"] <= roof
    rows = frame("als_versions").query("data == 'netflix-synthetic' and factors == 100 and model == 'ALS'")
    rows = rows[(rows.solver == "tensor_core") & (rows.x_step == "items")]
    (setting,) = [one for one in data["settings"] if one["name"] == "Netflix (synthetic), 100 factors"]
    assert setting["versions"][-1]["steps"][1]["seconds"] == pytest.approx(rows.seconds.median(), rel=1e-3)


def test_replayed_values_follow_the_rate():
    order = pd.DataFrame(
        {"group": [0, 0, 0, 0], "access": ["read", "read", "write", "write"],
         "array": ["user_factors", "item_factors", "user_factors", "item_factors"], "element": [0, 0, 0, 0]},
    )  # fmt: skip
    p, q, r = 1.0, 2.0, 5.0  # the first item's rating
    step = race_steps.RATE * (p * q - r)
    values = [one["value"] for one in widgets._replayed(order)]
    assert values == pytest.approx([p, q, p - step * q, q - step * p])
