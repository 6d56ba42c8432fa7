"""How long an epoch takes on so many workers: bytes over bandwidths, and work over rates. Pure functions.

Nothing here is measured: rates and bandwidths are those of the machine at hand, as its experiments record them.
"""

from dataclasses import dataclass

_FLOAT = 4  # bytes


@dataclass(frozen=True)
class Machine:
    """One worker, and how it is connected.

    product_rate : floating point operations a second of the sums v v^T and r v
    solve_rate : floating point operations a second of the solver
    update_rate : bytes of factors a second that updates of SGD read and write
    bandwidth : bytes a second that a worker sends, and receives at the same time
    latency : seconds before the first byte of a message arrives
    """

    product_rate: float
    solve_rate: float
    update_rate: float
    bandwidth: float
    latency: float


def gather_bytes(rows, columns, workers):
    """Bytes that a worker receives, on average, while all rows of factors are gathered."""
    return _FLOAT * rows * columns * (workers - 1) / workers


def reduce_bytes(rows, columns, workers):
    """Bytes that a worker receives, on average, while the rows' normal equations are added up and scattered."""
    return _FLOAT * rows * (columns * (columns + 1) / 2 + columns) * (workers - 1) / workers


def als_seconds(machine, n_users, n_items, nnz, columns, workers, way="gather", steps=None, row_bytes=None):
    """Seconds of an epoch of ALS whose ratings are shared out evenly.

    Parameters
    ----------
    machine : Machine
    n_users, n_items, nnz, columns : of the ratings and of the factors
    workers : int
    way : of the items' half-sweep, see `gpumf.distributed.als.way_of`
    steps : of conjugate gradient; None for a solver that takes f^3 / 3 operations a row
    row_bytes : of a user's factors as they are gathered; by default `columns` numbers in FP32

    Returns
    -------
    dict: 'products', 'solve', 'send' and 'total', in seconds
    """
    products = 2 * product_operations(nnz, columns) / workers / machine.product_rate
    solve = solve_operations(n_users + n_items, columns, steps) / workers / machine.solve_rate
    users = gather_bytes(n_users, columns, workers) if way == "gather" else reduce_bytes(n_items, columns, workers)
    if way == "gather" and row_bytes is not None:
        users = n_users * row_bytes * (workers - 1) / workers
    send = _sent(machine, users + gather_bytes(n_items, columns, workers), 2 * (workers - 1))
    return {"products": products, "solve": solve, "send": send, "total": products + solve + send}


def product_operations(nnz, columns):
    """Floating point operations of the sums v v^T and r v of one side."""
    return nnz * (columns * (columns + 1) + 2 * columns)


def solve_operations(rows, columns, steps=None):
    """Floating point operations of solving so many rows, as of `als_seconds`."""
    return rows * (columns**3 / 3 if steps is None else 2 * columns**2 * steps)


def sgd_seconds(machine, n_items, nnz, columns, workers):
    """Seconds of an epoch of SGD in workers x workers blocks, as of `als_seconds`: 'updates', 'send' and 'total'.

    An update reads and writes a row of each side; in an epoch every worker sends every part of the items on once.
    """
    updates = nnz * 4 * columns * _FLOAT / workers / machine.update_rate
    send = _sent(machine, _FLOAT * n_items * columns, workers) if workers > 1 else 0.0
    return {"updates": updates, "send": send, "total": updates + send}


def _sent(machine, received, messages):
    return received / machine.bandwidth + messages * machine.latency


def speedup(seconds, workers):
    """How many times faster so many workers are than one, by a function of workers that gives `als_seconds`."""
    return seconds(1)["total"] / seconds(workers)["total"]
