"""Launches kernels/rbm/fast.cu."""

from typing import ClassVar

import numpy as np

from gpumf.solvers.als_base import segments_of
from gpumf.solvers.base import Version
from gpumf.solvers.rbm_divergence import Divergence, DivergenceKernel

_BLOCK = 256  # CUDA threads


class HiddenUpdate:
    """p(h | v) of users from their training ratings, where rows of hidden units are in whole vectors of four.

    model, device, batches : of a `DivergenceKernel`
    longest : ratings of a segment, see `segments_of`

    Attributes:
    groups, groups_a_row : lanes of a row, which take a quad each at a time: how many a block has, and a row needs
    shared : bytes of dynamic shared memory
    work_list, begins : the segments on the device, batch by batch, and where those of each batch begin; the last ones
        are of users without ratings
    meeting : dict of parts, where those of users with several segments meet, and arrived, how many have
    """

    def __init__(self, hyper, device, batches, longest=32):
        self._kernel = device.kernel(Fast.source, "fast_hidden", **Fast.defines(hyper))
        shape = Fast.geometry(hyper)
        self.groups, self.groups_a_row = _BLOCK // shape.lanes, shape.quads_per_lane
        self.shared = self.groups * shape.group_bytes
        self._row = 4 * shape.quads

        segments, slots = segments_of(batches.indptr, longest)
        batch = np.searchsorted(batches.batch_users, segments["row"], "right") - 1
        order = np.argsort(batch, kind="stable")
        segments["row"] = batches.users[segments["row"]]
        self.begins = np.searchsorted(batch[order], np.arange(len(batches) + 2)).tolist()
        self.work_list = device.array(segments[order].view(np.uint8))
        self.meeting = {
            "parts": device.empty((max(slots, 1), self._row), np.float32),
            "arrived": device.zeros(max(slots, 1), np.int32),
        }
        self.items, self.levels = device.array(batches.items), device.array(batches.levels)

    def in_quads(self, array):
        """An array with rows of hidden units, filled up with zeros to whole vectors of four."""
        return np.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, self._row - array.shape[-1])])

    def of_all(self, weights, hidden_biases, probabilities):
        """Overwrite the rows of all users, (n_users, hidden), given weights (n_items, K, hidden)."""
        self._of_segments(0, self.begins[-1], weights, hidden_biases, probabilities)

    def of_batch(self, number, weights, hidden_biases, probabilities):
        """As `of_all`, of the users of a batch alone."""
        self._of_segments(*self.begins[number : number + 2], weights, hidden_biases, probabilities)

    def _of_segments(self, begin, end, weights, hidden_biases, probabilities):
        given = {"segments": self.work_list, "first_segment": begin, "items": self.items, "levels": self.levels}
        given |= {"weights": weights, "hidden_biases": hidden_biases, "probabilities": probabilities}
        self._kernel(end - begin, _BLOCK, **given, **self.meeting, shared=self.shared)


class Fast(DivergenceKernel, Divergence):
    """kernels/rbm/fast.cu: all levels at once, two launches a batch and one for each step of Gibbs sampling."""

    source = "rbm/fast.cu"
    versions: ClassVar = {"": Version("fast", "black", "-")}
    names = "fast_reconstruct", "fast_update"

    def __init__(self, problem, longest=32):
        hyper, train, (user_hidden, weights, visible_biases, hidden_biases) = problem
        super().__init__(hyper, train)
        device, b = self._device, self.batches
        self._reconstruct, self._update = self.compile(hyper)
        self._hidden = HiddenUpdate(hyper, device, b, longest)
        self._weights, self._positive = map(device.array, map(self._hidden.in_quads, (weights, user_hidden)))
        self._visible_biases, self._hidden_biases = device.array(visible_biases), device.array(hidden_biases)
        self._negative = device.empty(self._positive.shape, np.float32)
        self._reconstruction = device.empty(b.max_entries, np.uint8)
        learned = self._weights, self._visible_biases, self._hidden_biases
        self._learned = dict(zip(("weights", "visible_biases", "hidden_biases"), learned, strict=True))
        self._users = device.array(b.users)
        names = "row_items", "rows", "mapping", "entry_users"
        self._of_update = self._learned | {name: device.array(getattr(b, name)) for name in names}
        self._of_update |= {"users": self._users, "levels": self._hidden.levels}
        self._of_update |= {"positive": self._positive, "negative": self._negative}
        self._of_update |= {"reconstruction": self._reconstruction, "per_item": int(hyper.average == "item")}
        for name, array in self._learned.items():
            self._of_update[f"last_{name}"] = device.zeros(array.shape if hyper.momentum else 1, np.float32)
        self._of_batches = [self._arguments(number) for number in range(len(b))]

    def _arguments(self, number):
        """What the launches of a batch take but draws and rates, which is computed once: launches are short."""
        b, hidden = self.batches, self._hidden
        first_user, end_user = b.batch_users[number : number + 2].tolist()
        first_row, end_row = b.batch_rows[number : number + 2].tolist()
        first_entry, _ = b.entries(number)
        begin, end = hidden.begins[number : number + 2]
        reconstruct = {"segments": hidden.work_list, "first_segment": begin, "shared": hidden.shared}
        reconstruct |= {"items": hidden.items, "first_entry": first_entry, **hidden.meeting, **self._learned}
        reconstruct |= {"reconstruction": self._reconstruction, "probabilities": self._negative}
        update = self._of_update | {"first_row": first_row, "n_rows": end_row - first_row}
        update |= {"first_entry": first_entry, "first_user": first_user, "n_users": end_user - first_user}
        update_blocks = 1 + -(-(end_row - first_row) * hidden.groups_a_row // hidden.groups)
        return end - begin, reconstruct, update_blocks, update

    def train_batch(self, number, keys):
        hidden, self._last = self._hidden, number
        blocks, reconstruct, update_blocks, update = self._of_batches[number]
        hidden.of_batch(number, self._weights, self._hidden_biases, self._positive)
        known = self._positive
        for hidden_key, visible_key in keys:
            keyed = {"known": known, "hidden_key": hidden_key, "visible_key": visible_key}
            self._reconstruct(blocks, _BLOCK, **reconstruct, **keyed)
            known = self._negative
        rate, momentum, decay = self._rates()
        self._update(update_blocks, _BLOCK, **update, rate=rate, momentum=momentum, weight_decay=decay)

    def statistics(self):
        b, number = self.batches, self._last
        users = self._users[slice(*b.batch_users[number : number + 2])]
        first_entry, end_entry = b.entries(number)
        hidden = (self._without_padding(a[users]) for a in (self._positive, self._negative))
        return *hidden, self._reconstruction[: end_entry - first_entry]

    def _without_padding(self, array):
        return array[..., : self._hyper.hidden].copy()

    def arrays(self):
        self._hidden.of_all(self._weights, self._hidden_biases, self._positive)
        whole = map(self._without_padding, (self._positive, self._weights))
        return *whole, self._visible_biases, self._hidden_biases
