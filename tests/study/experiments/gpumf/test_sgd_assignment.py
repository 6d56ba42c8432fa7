"""Who takes which rating."""

import pandas as pd
import pytest

from gpumf import SGD
from gpumf_study import figure_style as style
from gpumf_study.experiments.gpumf import sgd_assignment


@pytest.mark.parametrize("seed", range(5))
def test_in_a_turn_everybody_makes_one_update_and_an_epoch_takes_every_rating(seed):
    frame = sgd_assignment._plain(sgd_assignment.run(n_users=9, n_items=5, nnz=37, seed=seed))
    assert not frame.duplicated(["scheme", "block", "member", "turn"]).any()
    assert frame.block.isin([0, 1]).all() and frame.member.isin([0, 1]).all()
    for scheme, updates in frame.groupby("scheme"):
        if scheme not in ("hogwild", "cu2rec"):
            assert len(updates) == 37 and not updates.duplicated(["user", "item"]).any(), scheme
        # ESGD's last block passes over the places of its permutation for which there are no ratings left.
        assert scheme == "esgd" or set(updates.turn) == set(range(updates.turn.max() + 1)), scheme
    drawn = frame[frame.scheme == "cu2rec"]
    assert len(drawn) == drawn.user.nunique() * round(37 / 9)
    assert not drawn[drawn.moves == "both"].duplicated(["turn", "item"]).any()


def test_schemes_without_conflicts_meet_nobody_and_owners_share_no_items():
    frame = sgd_assignment.run(n_users=9, n_items=5, nnz=40, seed=1)
    table = sgd_assignment.summary(frame).set_index("scheme")
    frame = sgd_assignment._plain(frame)
    assert (table.meets[["kato_hosino", "gpusgd", "newgpusgd", "cu2rec"]] == 0).all()
    assert (table.meets[["hogwild", "bsgd", "esgd", "cumf_sgd"]] > 0).all() and (table.busy <= 1).all()
    fast = frame[frame.scheme == "fast"]
    assert (fast.groupby("item").block.nunique() == 1).all() and fast.block.nunique() == 2
    kato = frame[frame.scheme == "kato_hosino"]
    assert (kato.groupby("user")[["block", "member"]].nunique() == 1).all(axis=None) and (kato.moves == "user").all()


def test_meetings_are_counted_for_the_vectors_that_move():
    rows = [("a", 0, 0, 0, 1, 5, "both"), ("a", 0, 1, 0, 2, 5, "both"), ("a", 0, 0, 1, 1, 5, "both")]
    rows += [("b", 0, 0, 0, 1, 5, "both"), ("b", 0, 1, 0, 2, 5, "user"), ("b", 1, 1, 0, 1, 6, "user")]
    frame = pd.DataFrame(rows, columns=["solver", "x_block", "x_member", "value", "x_user", "x_item", "x_moves"])
    table = sgd_assignment.summary(frame).set_index("scheme")
    assert table.meets["a"] == pytest.approx(2 / 3) and table.meets["b"] == pytest.approx(2 / 3)
    assert list(table.turns) == [2, 1] and list(table.busy) == [3 / 8, 3 / 4]


def test_the_diagram_has_a_square_a_rating_and_colours_them_by_who_takes_them():
    frame = sgd_assignment.run(**sgd_assignment.PROFILES["quick"])
    figure = sgd_assignment.figure(frame)
    frame = sgd_assignment._plain(frame)
    names = [style.LOOKS["SGD", scheme].name for scheme in frame.scheme.unique()]
    assert [axis.get_title() for axis in figure.axes] == names and len(set(names)) == len(names)
    assert all(axis.get_xlabel() for axis in figure.axes)
    assert "not measured" in figure.get_supxlabel()
    for axis, (_, updates) in zip(figure.axes, frame.groupby("scheme", sort=False), strict=True):
        taken = updates.drop_duplicates(["user", "item"])
        colours = {text.get_position(): square.get_edgecolor() for text, square in _squares(axis)}
        turns = {text.get_position(): text.get_text() for text, _ in _squares(axis)}
        again = updates[updates.duplicated(["user", "item"])]
        for row in taken.itertuples():
            plus = "+" if ((again.user == row.user) & (again.item == row.item)).any() else ""
            assert turns[row.item + 0.5, row.user + 0.54] == f"{row.turn + 1}{plus}"
        assert len(axis.patches) == 30 + len(taken) and len(colours) == len(taken)
        of_worker = {}
        for row in taken.itertuples():
            of_worker.setdefault((row.block, row.member), set()).add(colours[row.item + 0.5, row.user + 0.54])
        assert all(len(of) == 1 for of in of_worker.values())
        assert len(set.union(*of_worker.values())) == len(of_worker)


def _squares(axis):
    """Every number with its square, the last one drawn there."""
    at = {(round(p.get_x() - 0.06), round(p.get_y() - 0.06)): p for p in axis.patches}
    for text in axis.texts:
        x, y = text.get_position()
        yield text, at[round(x - 0.5), round(y - 0.54)]


def test_but_for_sizes_schemes_take_what_they_are_made_for():
    flags = {name: value for name, value in sgd_assignment.OPTIONS.items() if isinstance(value, bool)}
    defaults = {
        name: option.default for scheme in SGD.solver_classes().values() for name, option in scheme.options.items()
    }
    assert flags == {"shuffle": False, "striding": True} and defaults["striding"] is True
