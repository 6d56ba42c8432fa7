"""What a synthetic data set is to be: shape, counts, spread of its ratings; and the recipes of the published ones."""

from dataclasses import dataclass

from gpumf.ratings.checks import DataError


@dataclass(frozen=True)
class Recipe:
    """The recipe of a synthetic data set.

    users, items, ratings : the shape of the rating matrix and its exact number of ratings
    user_counts, item_counts : (fewest, most) ratings of one user, of one item
    scale, step : (lowest, highest) rating, and the distance between two neighbouring ratings; None where ratings are
        neither clipped nor rounded (`gpumf.ratings.synthetic_device`)
    mean : of the ratings before they are rounded and clipped to the scale, which pulls it to the scale's middle
    user_bias, item_bias, signal, noise : standard deviations, in ratings, of the four parts of a rating
    test : ratings in the official test set, counted in `ratings`
    decay : each factor's standard deviation over that of the one before it, in the low-rank part
    """

    users: int
    items: int
    ratings: int
    user_counts: tuple[int, int]
    item_counts: tuple[int, int]
    scale: tuple[float, float] | None
    step: float | None
    mean: float
    user_bias: float
    item_bias: float
    signal: float
    noise: float
    test: int = 0
    decay: float = 0.95


# The deviations make the ratings spread as the real ones do. The noise is calibrated: ALS-WR (uniform start, no
# biases, seed 0, random 80/20 split) crosses the published error after a few epochs and ends 1 to 2.3 % below it.
#   data set f   lambda  threshold    crossed  best
#   douban   16  0.05    MAE 0.5732   epoch 7  0.562
#   jester   16  0.07    MAE 0.71     epoch 5  0.695
#   ml-100k  16  0.13    RMSE 0.9378  epoch 4  0.929
#   ml-1m    16  0.07    RMSE 0.8991  epoch 5  0.882
#   ml-10m   16  0.05    RMSE 0.8709  epoch 5  0.852
#   ml-20m   16  0.05    none         -        0.846
#   netflix  100 0.05    RMSE 0.92    epoch 4  0.913 (official test set)
# Yahoo! Music was calibrated (f = 100, lambda 1.4, RMSE 22) at a 64th of its users, items and ratings. Its largest
# counts and its fewest ratings of an item are ours.
RECIPES = {
    "douban": Recipe(129_490, 58_541, 16_830_839, (1, 6_328), (1, 49_504), (1, 5), 1, 3.83, 0.38, 0.38, 0.42, 0.61),
    "jester": Recipe(73_421, 100, 4_136_360, (15, 100), (18_505, 73_413), (1, 5), 1, 3.19, 0.55, 0.3, 0.6, 0.745),
    "ml-100k": Recipe(943, 1_682, 100_000, (20, 737), (1, 583), (1, 5), 1, 3.58, 0.42, 0.52, 0.55, 0.86, decay=0.75),
    "ml-1m": Recipe(6_040, 3_706, 1_000_209, (20, 2_314), (1, 3_428), (1, 5), 1, 3.62, 0.42, 0.5, 0.5, 0.835),
    "ml-10m": Recipe(
        69_878, 10_677, 10_000_054, (20, 7_359), (1, 34_864), (0.5, 5), 0.5, 3.57, 0.42, 0.5, 0.45, 0.86
    ),
    "ml-20m": Recipe(
        138_493, 26_744, 20_000_263, (20, 9_254), (1, 67_310), (0.5, 5), 0.5, 3.59, 0.42, 0.5, 0.45, 0.85
    ),
    "netflix": Recipe(
        480_189, 17_770, 100_480_507, (1, 17_653), (3, 232_944), (1, 5), 1, 3.66, 0.42, 0.5, 0.5, 0.935, 1_408_395
    ),
    "yahoomusic": Recipe(
        1_000_990, 624_961, 256_804_235, (20, 100_000), (20, 200_000), (0, 100), 1, 50, 20, 12, 15, 22.3, 4_003_960
    ),
}


def check(spec):
    """Refuse a recipe whose counts no set of distinct pairs can have; DataError says which of them.

    n counts from `fewest` to `most`, both of which occur, sum up to anything from (n - 1) fewest + most to
    fewest + (n - 1) most.
    """
    sides = ("user", spec.users, spec.user_counts, spec.items), ("item", spec.items, spec.item_counts, spec.users)
    for side, n, (fewest, most), others in sides:
        if not 1 <= fewest <= most <= others:
            raise DataError(
                f"{side}_counts {fewest} to {most}: each of them has at least 1 rating, and at most {others}, "
                f"as many as there are {'items' if side == 'user' else 'users'}"
            )
        least, greatest = (fewest, most) if n == 1 else ((n - 1) * fewest + most, fewest + (n - 1) * most)
        if (n == 1 and fewest != most) or not least <= spec.ratings <= greatest:
            raise DataError(
                f"{n} {side}s with {fewest} to {most} ratings, both of which occur, have {least} to {greatest} "
                f"ratings and not {spec.ratings}; change {side}s, {side}_counts or ratings"
            )
    if not 0 <= spec.test < spec.ratings:
        raise DataError(f"a test set of {spec.test} of {spec.ratings} ratings: it takes some, and leaves some")
