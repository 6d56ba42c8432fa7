"""Two ways to spread a half-sweep of ALS over cards: all-gather of factors, reduce-scatter of Gram matrices."""

from gpumf.datasets.twins import TWINS
from gpumf_study.drawings.canvas import HUES, Drawing, Panel, tint

CARDS, FACTORS = 4, 100


def moved(cards, rows, columns, factors, word=4):
    """Bytes that each card receives in a half-sweep that solves `rows` from `columns`, shared out evenly: a dict.

    'all-gather' : the columns' factors of the other cards, of which the half-sweep before left a share on each
    'reduce-scatter' : the other cards' parts of A (its triangle) and b, of the rows that a card solves
    """
    gram = factors * (factors + 1) // 2 + factors
    return {
        "all-gather": (cards - 1) * columns // cards * factors * word,
        "reduce-scatter": (cards - 1) * (rows // cards) * gram * word,
    }


def _bytes(volume):
    return f"{volume / 1e9:.3g} GB" if volume >= 1e9 else f"{volume / 1e6:.3g} MB"


def drawing():
    """Both ways with what each card holds, and what they move at the shape of Netflix."""
    cell = 60

    def cards(canvas, y, texts, name):
        for card, text in enumerate(texts):
            fill = tint(HUES[card], 0.45)
            canvas.box(30 + card * (cell + 16), y, cell, 30, fill, edge="0.4", text=text, key=f"{name}-{card}")

    def stripes(canvas, x, y, width, height, down, label):
        for card in range(CARDS):
            part = (x, y + card * height / CARDS, width, height / CARDS)
            if not down:
                part = (x + card * width / CARDS, y, width / CARDS, height)
            canvas.box(*part, tint(HUES[card], 0.45), edge="white", text=card, size=12)
        canvas.text(x + width / 2, y - 10, label, ha="center")

    def everyone(canvas, top, bottom):
        for start in range(CARDS):
            for end in range(CARDS):
                x0, x1 = (30 + card * (cell + 16) + cell / 2 for card in (start, end))
                canvas.line([x0, x1], [top, bottom - 7], HUES[start], 1)
        for card in range(CARDS):
            x = 30 + card * (cell + 16) + cell / 2
            canvas.arrow((x, bottom - 8), (x, bottom), width=1)

    def gather(canvas):
        stripes(canvas, 22, 26, 110, 110, True, "ratings: rows")
        stripes(canvas, 210, 26, 110, 40, False, "Θ, as it was solved")
        canvas.lines(186, 92, ("A card has whole rows", "of ratings, and solves", "them with all of Θ."), 11.5)
        canvas.text(0, 164, "1  all-gather: every card gets all of Θ", weight="bold")
        cards(canvas, 180, [f"Θ {card}" for card in range(CARDS)], "part")
        everyone(canvas, 210, 250)
        cards(canvas, 250, ["all Θ"] * CARDS, "all")
        canvas.text(0, 304, "2  every card solves its own rows", weight="bold")
        cards(canvas, 320, [f"X {card}" for card in range(CARDS)], "solved")

    def scatter(canvas):
        stripes(canvas, 22, 26, 110, 110, False, "ratings: columns")
        stripes(canvas, 210, 26, 110, 40, False, "Θ, and it stays there")
        canvas.lines(186, 92, ("A card has the ratings", "of its columns, and no", "other part of Θ."), 11.5)
        canvas.text(0, 164, "1  partial A, b of every row, of a card's columns", weight="bold")
        cards(canvas, 180, [f"A, b of {card}" for card in range(CARDS)], "partial")
        everyone(canvas, 210, 250)
        cards(canvas, 250, [f"Σ, rows {card}" for card in range(CARDS)], "sum")
        canvas.text(0, 304, "2  reduce-scatter: sums; each solves its share", weight="bold")
        cards(canvas, 320, [f"X {card}" for card in range(CARDS)], "scattered")

    recipe = TWINS["netflix"]
    sides = {"users": (recipe.users, recipe.items), "items": (recipe.items, recipe.users)}

    def volume(canvas):
        for k, (side, shape) in enumerate(sides.items()):
            y, volumes = k * 104, moved(CARDS, *shape, FACTORS)
            canvas.text(0, y + 8, f"to solve {shape[0]:,} {side}", weight="bold")
            for j, (way, volume) in enumerate(volumes.items()):
                canvas.text(0, y + 34 + 34 * j, way)
                width = max(216 * volume / max(volumes.values()), 1)
                canvas.box(112, y + 24 + 34 * j, width, 20, HUES[j], edge="none", key=f"{side}-{way}")
                text = _bytes(volume)
                inside = width > 100
                canvas.text(
                    112 + width - 6 if inside else 118 + width,
                    y + 34 + 34 * j,
                    text,
                    ha="right" if inside else "left",
                    color="black" if j or not inside else "white",
                )
        canvas.text(0, 222, f"Computed, a card of {CARDS}, {FACTORS} factors in FP32.", 11.5)

    def rule(canvas):
        canvas.lines(
            0,
            8,
            (
                "All-gather receives f numbers a column,",
                "reduce-scatter f (f + 1) / 2 + f a row.",
                "",
                "All-gather is less wherever",
                "rows × (f + 3) / 2 > columns.",
                "",
                "But it needs all of Θ on every card. Where Θ",
                "does not fit, only reduce-scatter is left.",
            ),
        )

    said = "; ".join(
        f"for the {side} " + " and ".join(f"{_bytes(volume)} by {way}" for way, volume in volumes.items())
        for side, volumes in ((side, moved(CARDS, *shape, FACTORS)) for side, shape in sides.items())
    )
    return Drawing(
        (
            Panel("All-gather of factors", 354, gather),
            Panel("Reduce-scatter of Gram matrices", 354, scatter),
            Panel("What a card receives, Netflix", 232, volume),
            Panel("Which way?", 232, rule),
        ),
        f"Two ways over {CARDS} cards. All-gather: a card has rows of the ratings, receives all of Theta and "
        "solves its rows. "
        "Reduce-scatter: a card has columns of the ratings and its part of Theta, makes partial sums of A and b "
        "for every "
        "row, which are added over cards, and solves its share of the rows. At the shape of Netflix a card receives "
        + said
        + ".",
    )
