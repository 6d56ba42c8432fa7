"""How long an epoch of ALS takes on so many workers: bytes over bandwidths, and work over rates."""

from dataclasses import dataclass

from gpumf.distributed.als import gather_bytes, reduce_bytes


@dataclass(frozen=True)
class Machine:
    """One worker, and how it is connected.

    product_rate : floating point operations a second of the sums v v^T and r v
    solve_rate : floating point operations a second of the solver
    bandwidth : bytes a second that a worker sends, and receives at the same time
    latency : seconds before the first byte of a message arrives
    """

    product_rate: float
    solve_rate: float
    bandwidth: float
    latency: float


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


def _sent(machine, received, messages):
    return received / machine.bandwidth + messages * machine.latency
