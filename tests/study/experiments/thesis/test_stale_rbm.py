"""RBMs that are older than the ratings that they are blended with."""

from dataclasses import replace

import numpy as np
import pytest

from gpumf import RBM
from gpumf_study import figure_style as style
from gpumf_study import schema
from gpumf_study.experiments.thesis import stale_rbm
from outcomes import labelled
from support import ragged_ratings


def test_a_stale_machine_keeps_its_weights_and_may_be_shown_newer_ratings():
    ratings = ragged_ratings(seed=2)
    old, new = ratings.select(np.arange(ratings.nnz // 2)), ratings
    rbm = RBM(5, biases=False, solver="sequential").fit(old, 3)
    before = rbm.user_hidden.copy()
    shown = stale_rbm.shown_all(rbm, new)
    np.testing.assert_array_equal(shown.item_weights, rbm.item_weights)
    np.testing.assert_array_equal(rbm.user_hidden, before)
    levels = new.values.astype(int) - 1
    inputs = np.zeros((ratings.n_users, 5)) + rbm.hidden_biases
    np.add.at(inputs, new.users, rbm.item_weights[new.items, levels])
    np.testing.assert_allclose(shown.user_hidden, 1 / (1 + np.exp(-inputs)), rtol=1e-5)
    assert np.abs(shown.user_hidden - before).max() > 1e-4


@pytest.fixture(scope="module")
def ages():
    settings = {"factors": 4, "factor_epochs": 4, "hidden": 6, "hidden_epochs": 4, "kernel": "sequential", "seeds": 1}
    return stale_rbm.run("ml-100k-synthetic", ["random", "time"], first=0.5, chunks=5, every=[1, 2, 4], **settings)


def test_the_rbm_is_as_old_as_it_should_be(ages, stored):
    stored_frame, ages = schema.validated(ages), stale_rbm.wide(ages)
    assert set(ages.order) == {"random"}, "a synthetic data set has no times"
    blended = ages[ages.every > 0]
    assert (blended.age == blended.chunk % blended.every).all() and set(blended.chunk) == {1, 2, 3, 4}
    assert ((blended.rbm_seconds > 0) == (blended.age == 0)).all()
    new = blended[blended.age == 0].pivot(index=["chunk", "every"], columns="shown", values="rmse_rbm")
    np.testing.assert_allclose(new["trained on"], new["all so far"])
    alone = ages[ages.every == 0].set_index("chunk").rmse
    weightless = blended[blended.weight == 0]
    np.testing.assert_allclose(weightless.rmse, alone[weightless.chunk], rtol=1e-6)
    table = stale_rbm.summary(stored_frame)
    pooled = np.sqrt(np.average(alone**2, weights=ages[ages.every == 0].nnz))
    assert table[table.every == 0].rmse.item() == pytest.approx(pooled)
    np.testing.assert_allclose(table.gain, pooled - table.rmse, atol=1e-12)
    figure = style.save(stale_rbm.figure(stored_frame), stored(stored_frame))
    lines = {line.get_label(): line for line in figure.axes[0].lines}
    assert list(lines["shown all so far"].get_xdata()) == [1, 2, 4] and labelled(figure)


def test_no_chunk_teaches_what_predicts_it(monkeypatch):
    """With mirrored ratings in the last chunk all weights and all earlier errors keep their bits."""
    plain = stale_rbm._arrived

    def mirrored(ratings, order, seed):
        arrived = plain(ratings, order, seed)
        values = arrived.values.copy()
        last = int(np.rint(0.75 * arrived.nnz))
        values[last:] = 6 - values[last:]
        return replace(arrived, values=values)

    smoke = stale_rbm.PROFILES["smoke"] | {"orders": ["random"], "every": [1, 2]}
    first = stale_rbm.wide(stale_rbm.run(**smoke))
    monkeypatch.setattr(stale_rbm, "_arrived", mirrored)
    second = stale_rbm.wide(stale_rbm.run(**smoke))
    assert first.chunk.max() == 1 and first.weight.nunique() == 2
    keys = ["order", "seed", "chunk", "every", "shown"]
    first, second = (frame.sort_values(keys, ignore_index=True) for frame in (first, second))
    assert first.weight.equals(second.weight) and (first.rmse != second.rmse).all()
