"""Ids, and what users rated, as arrays of plain numbers for files."""

from itertools import pairwise

import numpy as np

from gpumf.ratings.csr import CompressedRows, row_offsets


def packed_ids(name, ids):
    """Arrays by name that hold ids: int64 or, where one needs it, uint64 (n,), or strings' UTF-8, uint8, and offsets.

    Raises TypeError: ids that are neither integers nor strings
    """
    if ids is None:
        return {}
    if ids.dtype.kind in "iu":
        wide = ids.dtype == np.uint64 and ids.max(initial=0) > np.iinfo(np.int64).max
        return {name: ids.astype(np.uint64 if wide else np.int64)}
    if not all(isinstance(one, str) for one in ids):
        raise TypeError(f"{name} must be integers or strings to be saved; make them strings before fit()")
    texts = [one.encode() for one in ids]
    return {
        f"{name}_text": np.frombuffer(b"".join(texts), np.uint8),
        f"{name}_offsets": row_offsets(np.fromiter(map(len, texts), np.int64, len(texts))),
    }


def unpacked_ids(name, arrays, count):
    """The ids that `packed_ids` made arrays of, which are taken out of the dict; None where there are none.

    Raises ValueError: ids that are not `count`, or of other types
    """
    ids, text, offsets = (arrays.pop(f"{name}{part}", None) for part in ("", "_text", "_offsets"))
    if text is not None and offsets is not None and ids is None:
        _check_offsets(name, offsets, count, len(text))
        whole = text.tobytes()
        ids = np.empty(count, object)
        ids[:] = [whole[a:b].decode() for a, b in pairwise(offsets)]
    elif text is not None or offsets is not None or (ids is not None and ids.dtype not in (np.int64, np.uint64)):
        raise ValueError(f"{name} are neither integers nor strings")
    if ids is not None and ids.shape != (count,):
        raise ValueError(f"there are {len(ids)} {name}, not {count}")
    if ids is not None and len(set(ids.tolist())) < count:
        raise ValueError(f"one of the {name} comes twice")
    return ids


def packed_rows(rows):
    """Arrays by name with what each user rated, without the ratings."""
    return {} if rows is None else {"seen_indptr": rows.indptr, "seen_indices": rows.indices}


def unpacked_rows(arrays, n_users, n_items):
    """The CompressedRows, without values, that `packed_rows` made arrays of, which are taken out; None without.

    Raises ValueError: rows of other users or items
    """
    indptr, indices = arrays.pop("seen_indptr", None), arrays.pop("seen_indices", None)
    if indptr is None and indices is None:
        return None
    if indptr is None or indices is None or indices.dtype != np.int32 or indices.ndim != 1:
        raise ValueError("what users rated is not whole")
    _check_offsets("seen", indptr, n_users, len(indices))
    if len(indices) and not (indices.min() >= 0 and indices.max() < n_items):
        raise ValueError(f"users rated items outside 0..{n_items - 1}")
    inside = np.ones(len(indices) + 1, bool)
    inside[indptr] = False
    if (np.diff(indices, prepend=0) < 0)[inside[:-1]].any():
        raise ValueError("what users rated is not in order")
    return CompressedRows(indptr, indices, None)


def _check_offsets(name, offsets, count, end):
    right = offsets.dtype == np.int64 and offsets.shape == (count + 1,)
    if not right or offsets[0] != 0 or offsets[-1] != end or (np.diff(offsets) < 0).any():
        raise ValueError(f"the offsets of {name} do not fit {count} rows")
