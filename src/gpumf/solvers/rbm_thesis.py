"""Launches kernels/rbm/thesis.cu."""

from types import SimpleNamespace
from typing import ClassVar

import numpy as np

from gpumf.ratings.csr import row_offsets
from gpumf.solvers.base import Publication, Version
from gpumf.solvers.rbm_batches import MAX_POSITIONS
from gpumf.solvers.rbm_divergence import Divergence, DivergenceKernel
from gpumf.solvers.rbm_fast import HiddenUpdate

_BLOCK = 128  # CUDA threads, where a thread works by itself


def _matrices(batch, n_items, n_levels, device):
    """The binary matrices of a batch, v^1 to v^K, on a device (thesis, Figure 4.4)."""
    made = {
        "users": batch.users,
        "indptr": batch.indptr,  # of the columns
        "items": batch.items,  # the row of each entry
        "columns": np.repeat(np.arange(len(batch.users), dtype=np.int32), np.diff(batch.indptr)),
        "row_indptr": row_offsets(np.bincount(batch.items, minlength=n_items)).astype(np.int32),
        "mapping": np.argsort(batch.items, kind="stable").astype(np.int32),  # of the rows' entries to the columns'
        "values": (batch.levels == np.arange(n_levels)[:, None]).astype(np.uint8),  # (K, entries)
    }
    return SimpleNamespace(**{name: device.array(array) for name, array in made.items()})


class Thesis(DivergenceKernel, Divergence):
    """kernels/rbm/thesis.cu: a launch for each level, in which a block takes a user, an entry or an item.

    The batches' matrices are computed before the first epoch and stay on the device; with batches='transfer' those of
    one batch at a time, whenever it is taken. The weights stay there too, K matrices (items, hidden), or with
    weights='transfer' they are copied to the device for each of the updates, and back after that of the weights. The
    updates can be called one by one to time them: `take` a batch, then `hidden_update`, `visible_update`,
    `hidden_update(reconstructed=True)` and `weight_update`.
    """

    source = "rbm/thesis.cu"
    publication = Publication("thesis", "section 4.2.2, Algorithm 4.2")
    versions: ClassVar = {
        "": Version("thesis, all on the device", "green", "-"),
        "batches": Version("thesis, batches moved", "olive", "-", {"batches": "transfer"}),
        "transfer": Version(
            "thesis, batches and weights moved", "orange", "-", {"batches": "transfer", "weights": "transfer"}
        ),
    }
    names = (
        *("thesis_hidden", "thesis_sigmoid", "thesis_draw", "thesis_visible", "thesis_softmax"),
        *("thesis_weights", "thesis_hidden_biases"),
    )
    transfers = True

    def __init__(self, problem):
        hyper, train, (user_hidden, weights, visible_biases, hidden_biases) = problem
        super().__init__(hyper, train)
        device, b = self._device, self.batches
        compiled = self.compile(hyper)
        self._hidden, self._sigmoid, self._draw, self._visible, self._softmax = compiled[:5]
        self._change_weights, self._change_hidden_biases = compiled[5:]
        self._transfer = hyper.weights == "transfer"
        levels, hidden, self._n_items = hyper.n_levels, hyper.hidden, train.n_items

        by_level = [np.ascontiguousarray(weights[:, k]) for k in range(levels)]
        self._weights = by_level if self._transfer else [device.array(w) for w in by_level]
        self._visible_biases = [device.array(visible_biases[:, k]) for k in range(levels)]
        self._hidden_biases = device.array(hidden_biases)
        kept = (len(weights) if hyper.momentum else 1, hidden)
        self._weight_changes = [device.zeros(kept, np.float32) for _ in range(levels)]
        self._visible_changes = [device.zeros(kept[0], np.float32) for _ in range(levels)]
        self._hidden_change = device.zeros(hidden, np.float32)

        self._matrices = None
        if hyper.batches == "device":
            self._matrices = [self._made(number) for number in range(len(b))]
        max_users = int(np.diff(b.batch_users).max())
        most = levels * max(b.max_entries, max_users * hidden)
        if most > MAX_POSITIONS:
            raise ValueError(
                f"the kernel 'thesis' needs {most} numbers for a batch of {max_users} users, {levels} levels of "
                f"their ratings and of {hidden} hidden units, and counts up to {MAX_POSITIONS}; lower batch"
            )
        self._products = device.empty(levels * max_users * hidden, np.float32)
        self._both = [device.empty((max_users, hidden), np.float32) for _ in range(2)]  # positive and negative
        self._units = device.empty((max_users, hidden), np.uint8)
        self._inputs = device.empty(levels * b.max_entries, np.float32)
        self._reconstruction = device.empty(levels * b.max_entries, np.uint8)
        self._all_hidden = HiddenUpdate(hyper, device, b)
        self._all_probabilities = device.array(self._all_hidden.in_quads(user_hidden))

    def train_batch(self, number, keys):
        self.take(number)
        self.hidden_update()
        for draws in keys:
            self.visible_update(*draws)
            self.hidden_update(reconstructed=True)
        self.weight_update()

    def take(self, number):
        """Go on with batch `number`."""
        self._of = self._matrices[number] if self._matrices else self._made(number)
        self._known = None
        self._n_users, self._n_entries = len(self._of.users), len(self._of.items)

    def _made(self, number):
        return _matrices(self.batches[number], self._n_items, self._hyper.n_levels, self._device)

    def hidden_update(self, reconstructed=False):
        """p(h | v) of the batch's users from the data, or from the last `visible_update`."""
        of, block = self._of, self._hyper.hidden
        values = self._levels_of(self._reconstruction) if reconstructed else of.values
        products = self._products[: len(values) * self._n_users * block].reshape(len(values), -1)
        for k, product in enumerate(products):
            weights = self._weights_there(k)
            columns = {"indptr": of.indptr, "items": of.items, "values": values[k]}
            self._hidden(self._n_users, block, **columns, weights=weights, products=product)
        self._known = self._both[int(reconstructed)]
        summed = {"products": products, "hidden_biases": self._hidden_biases}
        self._sigmoid(self._n_users, block, **summed, probabilities=self._known)

    def visible_update(self, hidden_key, visible_key):
        """A step of Gibbs sampling from the last `hidden_update`: hidden units, then levels are drawn."""
        of, block = self._of, self._hyper.hidden
        draws = {"probabilities": self._known, "key": hidden_key}
        self._draw(self._n_users, block, users=of.users, **draws, units=self._units)
        inputs, reconstruction = map(self._levels_of, (self._inputs, self._reconstruction))
        for k, biases in enumerate(self._visible_biases):
            entries = {"items": of.items, "columns": of.columns, "units": self._units}
            learned = {"weights": self._weights_there(k), "biases": biases}
            self._visible(self._n_entries, block, **entries, **learned, inputs=inputs[k], shared=4 * block)
        blocks, draws = -(-self._n_entries // _BLOCK), {"key": visible_key, "inputs": inputs}
        self._softmax(blocks, _BLOCK, n_entries=self._n_entries, **draws, values=reconstruction)

    def weight_update(self):
        """Weights and biases from the data, the last reconstruction, and the hidden probabilities of both."""
        of, block = self._of, self._hyper.hidden
        rate, momentum, decay = self._rates()
        positive, negative = self._both
        both = {"positive": positive, "negative": negative, "n_users": self._n_users}
        both |= {"rate": rate, "momentum": momentum}
        of_all = {"row_indptr": of.row_indptr, "mapping": of.mapping, "columns": of.columns}
        of_all |= {"per_item": int(self._hyper.average == "item"), "weight_decay": decay}
        for k, reconstruction in enumerate(self._levels_of(self._reconstruction)):
            weights = self._weights_there(k)
            level = {"values": of.values[k], "reconstruction": reconstruction, "weights": weights}
            level |= {"biases": self._visible_biases[k], "last_biases": self._visible_changes[k]}
            level |= {"last_weights": self._weight_changes[k]}
            self._change_weights(len(of.row_indptr) - 1, block, **both, **of_all, **level)
            if self._transfer:
                self._weights[k] = self._device.to_numpy(weights)
        self._change_hidden_biases(1, block, **both, biases=self._hidden_biases, last=self._hidden_change)

    def _weights_there(self, k):
        """W^k on the device."""
        return self._device.array(self._weights[k]) if self._transfer else self._weights[k]

    def _levels_of(self, array):
        """(K, entries of the batch) of an array that has room for any batch."""
        return array[: self._hyper.n_levels * self._n_entries].reshape(-1, self._n_entries)

    def statistics(self):
        hidden = (a[: self._n_users] for a in self._both)
        return *hidden, self._levels_of(self._reconstruction).argmax(axis=0).astype(np.uint8)

    def arrays(self):
        weights = self._device.array(np.stack(self._weights, axis=1))
        self._all_hidden.of_all(self._all_hidden.in_quads(weights), self._hidden_biases, self._all_probabilities)
        hidden = self._all_probabilities[:, : self._hyper.hidden].copy()
        return hidden, weights, np.stack(self._visible_biases, axis=1), self._hidden_biases
