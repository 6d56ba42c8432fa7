"""Banks of shared memory: a column of a tile whose rows follow each other, and of one whose rows are padded."""

from gpumf import gpu
from gpumf.models.base import shape_of
from gpumf_study.drawings.canvas import HUES, Drawing, Panel

BANKS, ROWS, SIDE = 32, 8, 16
_CELL = 10


def padded():
    """Floats from row to row of a 16 x 16 tile in kernels/als/cumf/direct.cu, from what the kernel exports."""
    return shape_of(gpu.device("host"), "als/cumf/shape.cu", FACTORS=SIDE - 1).system_bytes // 4 // SIDE


def banks(stride):
    """The banks that eight threads want who read a column, each in a row of its own."""
    return [row * stride % BANKS for row in range(ROWS)]


def turns(stride):
    """How often a bank is asked for a word of its own, at most: so many turns the read takes."""
    wanted = banks(stride)
    return max(map(wanted.count, wanted))


def drawing():
    """Both strides: words as they lie in the banks, and whom each thread asks."""

    def panel(stride):
        def draw(canvas):
            words = ROWS * stride
            for line in range(-(-words // BANKS)):
                width = min(BANKS, words - line * BANKS) * _CELL
                canvas.box(14, 24 + line * 19, width, 15, "0.93", edge="0.7", linewidth=0.5)
            for row in range(ROWS):
                line, bank = divmod(row * stride, BANKS)
                canvas.box(
                    14 + bank * _CELL - 2, 23 + line * 19, _CELL + 4, 17, HUES[row], text=row, key=f"word-{row}"
                )
            canvas.text(14, 10, "bank 0")
            canvas.text(334, 10, "31", ha="right")
            canvas.text(14 + 16 * _CELL, 10, "16", ha="center")
            canvas.line([14 + 16 * _CELL] * 2, [18, 22 + 19 * -(-words // BANKS)], "0.6", 0.8, linestyle=":")
            y = 146
            for bank in sorted(set(banks(stride))):
                who = [row for row in range(ROWS) if banks(stride)[row] == bank]
                for k, row in enumerate(who):
                    canvas.box(14 + bank * _CELL - 2, y + k * 18, _CELL + 4, 16, HUES[row], text=row)
            canvas.text(14, y - 10, "asked for by threads 0 to 7:")
            n = turns(stride)
            canvas.text(14, 232, f"{n} turn{'s' * (n > 1)}", weight="bold")

        return draw

    wide = padded()
    return Drawing(
        (
            Panel(f"Rows of {SIDE} words, one after another", 242, panel(SIDE)),
            Panel(f"The same rows, {wide} words apart", 242, panel(wide)),
        ),
        "Eight threads read one column of a tile in shared memory, each in a row of its own. Where rows are "
        f"{SIDE} words "
        f"apart, they want {len(set(banks(SIDE)))} of the {BANKS} banks and take {turns(SIDE)} turns. Where rows are "
        f"{wide} words apart, they want {len(set(banks(wide)))} banks and take {turns(wide)}.",
    )
