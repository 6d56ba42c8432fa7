"""SGD at the twin of Netflix."""

from outcomes import promise_words


def test_the_updates_of_sgd_and_its_errors_are_those_that_the_promises_name():
    columns = ["scheme", "repeat", "nnz", "epoch", "seconds", "rmse"]

    def rows(**schemes):
        return [
            (scheme, 0, 1e9, e, e * seconds_, rmse) for scheme, (seconds_, rmse) in schemes.items() for e in range(21)
        ]

    once = {"ordered_parallel": (10, 0.92), "sequential": (10, 0.95)}
    for seconds_, expected in ((0.1, "stretch"), (0.15, "target"), (0.25, "short")):
        assert promise_words("sgd-fast-updates", columns, rows(fast=(seconds_, 1), cumf_sgd=(9, 1))) == expected
    assert promise_words("sgd-cumf-updates", columns, rows(fast=(0.01, 1), cumf_sgd=(0.5, 1))) == "short"
    for rmse, expected in ((0.919, "stretch"), (0.922, "target"), (0.924, "short")):
        assert promise_words("sgd-fast-rmse-gap", columns, rows(fast=(1, rmse), **once)) == expected
    assert promise_words("sgd-fast-rmse-gap", columns, rows(fast=(1, 0.9), sequential=(1, 0.9))) == "missing"
    apart = [(*row[:1], 1, *row[2:5], row[5] + 0.004) for row in rows(**once)]
    assert promise_words("sgd-fast-rmse-gap", columns, [*rows(fast=(1, 0.922), **once), *apart]) == "target"
    assert promise_words("sgd-fast-rmse-gap", columns, [*rows(fast=(1, 0.9245), **once), *apart]) == "short"
