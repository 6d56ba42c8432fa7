"""The setting of cuMF."""

import pandas as pd
import pytest

from gpumf_study.experiments.cumf import cumf_setting
from outcomes import FINDINGS, assert_drawn, word


def intensities(exponent):
    rows = [("Table 1", step, f, "operations a byte", float(f) ** exponent)
            for step in cumf_setting.STEPS for f in (10, 20, 40)]  # fmt: skip
    rows += [("Table 2", "netflix", None, "users", 480189.0), ("Table 3", "here", None, "GB/s of a copy", 1480.0)]
    return pd.DataFrame(rows, columns=["table", "what", "factors", "quantity", "value"])


@pytest.mark.parametrize(
    ("exponent", "words"),
    [
        (1.0, ("reproduced", "contradicted")),
        (0.5, ("same direction", "contradicted")),
        (0.0, ("contradicted", "reproduced")),
    ],
)
def test_words_follow_from_the_exponents(exponent, words):
    frame = intensities(exponent)
    assert (word("cumf-table-1-get-hermitian", frame), word("cumf-table-1-sgd", frame)) == words
    assert word("cumf-table-1-solve", frame) == words[0]


def test_the_sets_are_by_construction_and_the_machine_answers():
    assert word("cumf-table-2", intensities(1.0)) == "by construction"
    assert word("cumf-table-3-bandwidth", intensities(1.0)) == "answered"
    assert word("cumf-table-3-peak", intensities(1.0)) == "missing"


def test_this_machine_is_measured_where_it_is_asked_for(ceilings):
    ceilings(fp32_flops=30e12, copy_bytes_per_second=3e12)
    frame = cumf_setting.run([50], measure=True)
    here = frame[frame.table == "Table 3"].set_index("quantity").value
    assert here.to_dict() == {"FP32 TFLOP/s": 30, "GB/s of a copy": 3000}
    assert cumf_setting.run([50], measure=False).table.isin(["Table 1", "Table 2"]).all()


def test_counts_are_those_of_netflix(store):
    frame = cumf_setting.run([100], measure=False)
    table = cumf_setting.summary(frame).sort_index()
    hermitian = table.value["Table 1", "get_hermitian", 100]
    assert hermitian["operations"] == pytest.approx(2 * 100_480_507 * 100 * 101)
    # Each rating gathers a row of factors on both sides, which no other step does.
    gathered = 2 * 4 * 100_480_507 * 100
    assert hermitian["bytes"] > gathered > table.value["Table 1", "solve", 100]["bytes"]
    assert (table.loc["Table 2"].value / table.loc["Table 2"].published).between(0.99, 1.01).all()
    assert FINDINGS["cumf-table-2"].value(frame)[0] < 0.01
    result = store("cumf_setting", cumf_setting.run([50, 100], measure=False))
    assert_drawn(cumf_setting.figure(result.frame), result, 1)
