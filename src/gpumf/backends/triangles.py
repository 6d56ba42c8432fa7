"""Products of float32 matrices of which one triangle counts, in blocks of columns: the other takes about no work.

blas : `backends.blas` or `backends.cublas`
columns : int, of a block. Fewer leave out more of the other triangle; each block of the product has to fill a GPU.
"""


def gram(blas, rows, made, columns, add=False):
    """Write the upper triangle of rows^T rows to `made`, or add it; below the diagonal, blocks beside it are left."""
    for own in _blocks(made, columns):
        above = slice(own.stop)
        blas.cross(rows[:, above], rows[:, own], made[above, own], add)


def product(blas, pairs, made, columns, transposed=False):
    """Write the sum of a U over pairs (a, U) to `made`; of a U^T if transposed. Each U is upper triangular.

    What a U has below its diagonal is zero.
    """
    for own in _blocks(made, columns):
        other = slice(own.start, None) if transposed else slice(own.stop)
        for k, (a, upper) in enumerate(pairs):
            part = upper[own, other] if transposed else upper[other, own]
            blas.product(a[:, other], part, made[:, own], transposed, add=k > 0)


def _blocks(made, columns):
    width = made.shape[1]
    return [slice(first, min(first + columns, width)) for first in range(0, width, columns)]
