"""Conjugate gradient inside a multiprocessor: what stays in registers and shared memory, and what moves."""

from gpumf import gpu
from gpumf.models.base import shape_of
from gpumf_study.drawings.canvas import Drawing, Panel, tint
from gpumf_study.drawings.probes import pipeline, plan

FACTORS = 100


def held():
    """Bytes of A, by kernel and memory: a dict.

    'cumf_cg' and 'cumf_cg_fp16' : in global memory, read in every step
    'tensor_core' : in the registers of a team, with the padding and b
    """
    matrix = shape_of(gpu.device("host"), "als/cumf/shape.cu", FACTORS=FACTORS).matrix
    _, shape = plan(FACTORS)
    _, _, threads, _ = pipeline(FACTORS)
    return {"cumf_cg": 4 * matrix, "cumf_cg_fp16": 2 * matrix, "tensor_core": 4 * 4 * shape.quads * threads}


def drawing():
    """The step, and its data in cg.cu and in tensor_core.cu."""
    found = held()

    def step(canvas):
        lines = (
            ("q = A p", "the one product with A", "orange"),
            ("α = r·r / p·q", "a sum over all threads", "sky"),
            ("x ← x + α p", "each thread its own", "green"),
            ("r ← r − α q", "each thread its own", "green"),
            ("β = r·r / (r·r before)", "a sum over all threads", "sky"),
            ("p ← r + β p", "each thread its own", "green"),
        )
        for k, (what, how, colour) in enumerate(lines):
            canvas.box(0, k * 33, 340, 28, tint(colour, 0.3), edge="0.6")
            canvas.text(10, k * 33 + 14, what, weight="bold")
            canvas.text(330, k * 33 + 14, how, 11, ha="right")
        canvas.text(0, 208, "f unknowns, a thread each; a few such steps a row.")

    def multiprocessor(name, heads):
        def draw(canvas):
            inside = name == "tensor_core"
            canvas.place(0, 0, 340, 168, "multiprocessor", "green")
            canvas.place(10, 28, 156, 130, "registers", "blue")
            canvas.place(174, 28, 156, 130, "shared memory", "sky")
            canvas.lines(22, 66, ("x, r and p:", "a number a thread"))
            canvas.lines(186, 66, ("p, for all to read", "partial sums"))
            if inside:
                canvas.box(22, 106, 132, 40, "orange", text=f"A, b: {found[name]:,} bytes", key="a-tensor_core")
                canvas.box(186, 106, 132, 40, "white", text="partial products q")
            canvas.place(0, 218, 340, 62, "global memory", "grey")
            if not inside:
                for k, of in enumerate(heads):
                    canvas.box(88 + k * 126, 242, 118, 30, "orange", text=f"A: {found[of]:,} bytes", key=f"a-{of}")
                canvas.arrow((146, 240), (146, 170), "red", 4)
                canvas.text(156, 196, "A, in every step", weight="bold")
                canvas.arrow((30, 218), (30, 170), both=True)
                canvas.text(38, 196, "b, x once")
            else:
                canvas.text(120, 260, "no A at all")
                canvas.arrow((30, 218), (30, 170), both=True)
                canvas.text(38, 196, "x in and out, once")

        return draw

    return Drawing(
        (
            Panel("A step", 220, step),
            Panel(
                "cg.cu: A in FP32 (left) or FP16 (right)", 284, multiprocessor("cumf_cg", ("cumf_cg", "cumf_cg_fp16"))
            ),
            Panel("tensor_core.cu: A stays where it was made", 284, multiprocessor("tensor_core", ())),
        ),
        f"First the six lines of a step of conjugate gradient. Then, for {FACTORS} factors, where its data are: "
        "in cg.cu A "
        f"lies in global memory, {found['cumf_cg']:,} bytes in FP32 or {found['cumf_cg_fp16']:,} in FP16, and is "
        "read in "
        f"every step; in tensor_core.cu it is {found['tensor_core']:,} bytes of registers, and only x moves.",
    )
