"""Who takes which rating."""

import pandas as pd
import pytest

from gpumf import SGD
from gpumf_study import figure_style as style
from gpumf_study.experiments.gpumf import sgd_assignment


@pytest.mark.parametrize("seed", range(5))
def test_in_a_turn_everybody_makes_one_update_and_an_epoch_takes_every_rating(seed):
    frame = sgd_assignment.run(n_users=9, n_items=5, nnz=37, seed=seed)
    assert not frame.duplicated(["solver", "x_block", "x_member", "value"]).any()
    assert frame.x_block.isin([0, 1]).all() and frame.x_member.isin([0, 1]).all()
    for solver, updates in frame.groupby("solver"):
        if solver not in ("hogwild", "cu2rec"):
            assert len(updates) == 37 and not updates.duplicated(["x_user", "x_item"]).any(), solver
        # ESGD's last block passes over the places of its permutation for which there are no ratings left.
        assert solver == "esgd" or set(updates.value) == set(range(updates.value.max() + 1)), solver
    drawn = frame[frame.solver == "cu2rec"]
    assert len(drawn) == drawn.x_user.nunique() * round(37 / 9)
    assert not drawn[drawn.x_moves == "both"].duplicated(["value", "x_item"]).any()


def test_schemes_without_conflicts_meet_nobody_and_owners_share_no_items():
    frame = sgd_assignment.run(n_users=9, n_items=5, nnz=40, seed=1)
    table = sgd_assignment.summary(frame).set_index("scheme")
    assert (table.meets[["kato_hosino", "gpusgd", "newgpusgd", "cu2rec"]] == 0).all()
    assert (table.meets[["hogwild", "bsgd", "esgd", "cumf_sgd"]] > 0).all() and (table.busy <= 1).all()
    fast = frame[frame.solver == "fast"]
    assert (fast.groupby("x_item").x_block.nunique() == 1).all() and fast.x_block.nunique() == 2
    kato = frame[frame.solver == "kato_hosino"]
    assert (kato.groupby("x_user")[["x_block", "x_member"]].nunique() == 1).all(axis=None)
    assert (kato.x_moves == "user").all()


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
    for axis, (solver, updates) in zip(figure.axes, frame.groupby("solver", sort=False), strict=True):
        assert axis.get_title() == style.LOOKS["SGD", solver].name
        first = updates.drop_duplicates(["x_user", "x_item"]).set_index(["x_item", "x_user"])
        again = updates[updates.duplicated(["x_user", "x_item"])].set_index(["x_item", "x_user"]).index
        squares = {(round(p.get_x() - 0.06), round(p.get_y() - 0.06)): p.get_edgecolor() for p in axis.patches}
        numbers = {(round(t.get_position()[0] - 0.5), round(t.get_position()[1] - 0.54)): t.get_text()
                   for t in axis.texts}  # fmt: skip
        assert numbers == {at: f"{turn + 1}{'+' * (at in again)}" for at, turn in first.value.items()}
        colours = {(row.x_block, row.x_member, squares[row.Index]) for row in first.itertuples()}
        workers = first.groupby(["x_block", "x_member"]).ngroups
        assert len(colours) == len({colour for *_, colour in colours}) == workers


def test_but_for_sizes_schemes_take_what_they_are_made_for():
    flags = {name: value for name, value in sgd_assignment.OPTIONS.items() if isinstance(value, bool)}
    defaults = {
        name: option.default for scheme in SGD.solver_classes().values() for name, option in scheme.options.items()
    }
    assert flags == {"shuffle": False, "striding": True} and defaults["striding"] is True
