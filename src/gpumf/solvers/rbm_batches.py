"""Mini-batches of users, and the ratings of each by user and by item."""

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np

from gpumf._util.counter_rng import random_order
from gpumf.ratings.csr import row_offsets

MAX_POSITIONS = 2**31 - 1  # that an int32 counts


@dataclass(frozen=True, eq=False)
class Batches:
    """The ratings of a training set, one batch of users after another: what the thesis calls the binary batch matrix.

    A batch is a sparse matrix of items and users whose entries are the levels of ratings (thesis, section 4.2.2,
    Figures 4.3 and 4.4). Its columns are users and its entries lie in their order (CSC); `mapping` says where the
    entries of its rows, which are items, lie among them (CSR). `batches[b]` is batch number b by itself: an object
    with the same attributes, positions counted from its own first entry.

    users : int32 (n_users,), all of them in the order in which they come: random, those without ratings last
    indptr : int64 (n_users + 1,); the entries of users[c] are indptr[c] to indptr[c + 1]
    items, levels, entry_users : int32, uint8 and int32 (nnz,), of each entry
    batch_users : int64 (n_batches + 1,), where each batch's users begin
    row_items : int32 (n_rows,), the items of each batch that have ratings in it, those with most ratings first
    rows : int64 (n_rows + 1,), where in `mapping` the entries of each begin
    batch_rows : int64 (n_batches + 1,), where each batch's items begin
    mapping : int32 (nnz,), positions of entries, counted from the batch's first
    """

    users: np.ndarray
    indptr: np.ndarray
    items: np.ndarray
    levels: np.ndarray
    entry_users: np.ndarray
    batch_users: np.ndarray
    row_items: np.ndarray
    rows: np.ndarray
    batch_rows: np.ndarray
    mapping: np.ndarray

    def __len__(self):
        return len(self.batch_users) - 1

    @property
    def max_entries(self):
        """Of a batch."""
        return int(np.diff(self.indptr[self.batch_users]).max())

    def entries(self, number):
        """(first, end) of the entries of batch `number`."""
        return tuple(self.indptr[self.batch_users[number : number + 2]].tolist())

    def __getitem__(self, number):
        users, rows = (slice(*starts[number : number + 2]) for starts in (self.batch_users, self.batch_rows))
        entries = slice(*self.entries(number))
        return SimpleNamespace(
            users=self.users[users],
            indptr=self.indptr[users.start : users.stop + 1] - entries.start,
            items=self.items[entries],
            levels=self.levels[entries],
            entry_users=self.entry_users[entries],
            row_items=self.row_items[rows],
            rows=self.rows[rows.start : rows.stop + 1] - entries.start,
            mapping=self.mapping[entries],
        )

    @classmethod
    def of(cls, by_user, levels, n_items, size, seed):
        """Batches of `size` users each, the last one of what is left.

        by_user : CompressedRows of the users
        levels : uint8 (nnz,), of its ratings, from 0
        size : int
        seed : int, of the order of the users
        Raises ValueError: a batch has more than MAX_POSITIONS ratings
        """
        counts = by_user.counts
        users = random_order(by_user.n_rows, seed)
        users = np.concatenate([users[counts[users] > 0], users[counts[users] == 0]]).astype(np.int32)
        indptr = row_offsets(counts[users])
        entry_users = np.repeat(users, counts[users])
        taken = np.repeat(by_user.indptr[users] - indptr[:-1], counts[users]) + np.arange(indptr[-1])
        items = by_user.indices[taken]

        active = np.count_nonzero(counts)
        batch_users = np.append(np.arange(0, active, size), active)
        if (most := np.diff(indptr[batch_users]).max()) > MAX_POSITIONS:
            raise ValueError(f"a batch of {size} users has {most} ratings, more than {MAX_POSITIONS}; lower batch")
        batch = np.repeat(np.arange(len(batch_users) - 1), np.diff(indptr[batch_users]))
        row_items, rows, batch_rows, mapping = _rows(batch, items, n_items)
        return cls(
            users, indptr, items, levels[taken], entry_users, batch_users, row_items, rows, batch_rows, mapping
        )


def _rows(batch, items, n_items):
    """`row_items`, `rows`, `batch_rows` and `mapping` of entries whose batches ascend."""
    key = batch * np.int64(n_items) + items
    order = np.argsort(key, kind="stable")
    first = np.flatnonzero(np.diff(key[order], prepend=-1))
    counts = np.diff(first, append=len(key))
    by_length = np.lexsort((-counts, batch[order[first]]))
    first, counts = first[by_length], counts[by_length]
    rows = row_offsets(counts)
    mapping = order[np.repeat(first - rows[:-1], counts) + np.arange(len(key))]
    firsts, of_rows = mapping[rows[:-1]], batch[mapping[rows[:-1]]]
    starts = row_offsets(np.bincount(batch))
    return items[firsts], rows, row_offsets(np.bincount(of_rows)), (mapping - starts[batch]).astype(np.int32)
