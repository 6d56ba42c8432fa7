"""How many updates count: each scheme of SGD where every update moves its row by the same known step.

Updates that meet in a row overwrite each other, and errors hardly tell how many. Here one side's factors are all 1,
the other side's all 0, and a row of the latter shows afterwards how many of its updates are in it. Let the items be
that side, p = 1, q = 0, no regularization, the rate mu, and the ratings R of some marked ones and 0 of all others:

    marked:  e = p . q - R, close to -R,  q_k -= mu e p_k: q_k grows by a step s = mu R
    others:  e = p . q = f q_k,           q_k -= mu e p_k: a relative change of mu f, but the row is written too

so q_k / s is the number of marked updates that nobody overwrote, if all else stays small. With M marked ratings a row
and epoch (all, of a row that has no more), E epochs, and n ratings of the most popular row:

- q_k is at most E M s, and E M steps of s = 2^-16 are whole multiples of it below 2^11: exact in half precision too,
  whose rows would not move by small steps from anywhere else than 0.
- What f q_k in e changes is at most E n mu f of a row: under 0.1 % by the choice of mu, a power of two.
- The other side moves by s q_k in an update, under 2^-23, which E n of them make less than 1 %.

The expected number is that of the marked ratings that were in fact taken: `hogwild` and the CPU's schemes draw them,
cu2rec draws one of each user's a step. Its other updates of an item are dropped on purpose; they count as lost.
"""

from dataclasses import replace
from functools import cached_property, partial

import numpy as np
import pandas as pd
from tqdm import tqdm

from gpumf import SGD, backends
from gpumf._util.counter_rng import positional_hash, random_positions
from gpumf.backends.cpu.timing import seconds_of
from gpumf.ratings import Ratings
from gpumf.ratings.device import DeviceRatings
from gpumf.solvers.sgd_base import Updates, draw_key
from gpumf_study import figure_style as style
from gpumf_study.experiments import load_ratings
from gpumf_study.experiments.gpumf import sgd_schemes

SCHEMES = sgd_schemes.SCHEMES | {
    "fast, one look": ("fast", {"reread": False}),
    "fast, locked": ("fast", {"locked": True}),
    "fast, FP32, locked": ("fast", {"precision": 32, "locked": True}),
}
ON_GPUS = [label for label, (kernel, _) in SCHEMES.items() if SGD.solvers()[kernel] == "cuda"]
STEP, MARKED = 2.0**-16, 128
_DRIFT = 0.001  # of a row, by what it adds to the errors

PROFILES = {
    "quick": {"data": [], "random": [[64, 4, 200], [40, 30, 300]],
              "schemes": ["sequential", "hogwild", "cumf_sgd", "fast", "fast, locked"], "factors": [16], "epochs": 2,
              "device": "emulator"},
    "full": {"data": ["jester-1", "ml-1m-synthetic", "douban-synthetic"], "random": [], "schemes": None,
             "factors": [16, 128], "epochs": 4, "device": "cuda"},
}  # fmt: skip
PROFILES["smoke"] = PROFILES["quick"] | {
    "random": [[12, 9, 60]],
    "schemes": ["sequential", "cumf_sgd", "fast, locked"],
}

why_unavailable = partial(backends.why_unavailable, "emulator")


def run(data, random, schemes, factors, epochs, device):
    """Count the updates that are left after each epoch, and time it.

    random : list of [users, items, ratings], of sets of random places beside them
    schemes : labels of SCHEMES; by default those of GPUs
    epochs : int, at most 8; the first one is slower, as kernels are loaded in it
    device : 'cuda' or 'emulator', for the schemes that are kernels

    A row is a decile and an epoch (`repeat`, from 0): x_side ('users' or 'items'), x_decile (of that side's rows with
    ratings by their number, 10 the most popular), x_rows, x_updates (attempted), the metric counted (of those, the
    ones that nobody overwrote: the share of the marked ones, row by row), and seconds (of the epoch, by the
    device's events, the same for all deciles).
    """
    frames = []
    for made in [*data, *random]:
        ratings = load_ratings(made) if isinstance(made, str) else scattered(*made)
        if ratings.test_mask is not None:
            ratings = ratings.official_split()[0]
        sides = {whose: Side(ratings, whose) for whose in ("users", "items")}
        cases = [(label, f, whose) for f in factors for label in schemes or ON_GPUS for whose in sides]
        for label, f, whose in tqdm(cases, desc=f"lost_updates {ratings.name}", leave=False):
            kernel, options = SCHEMES[label]
            place = "cpu" if SGD.solvers()[kernel] == "cpu" else device
            what = {"data": ratings.name, **sgd_schemes.columns_of(label), "device": place, "factors": f}
            for epoch, seconds, taken, share in counts(sides[whose], f, epochs, kernel, place, **options):
                measured = {"x_nnz": ratings.nnz, "x_side": whose, "repeat": epoch, "seconds": seconds}
                frames.append(deciles(sides[whose].n_ratings, taken, share).assign(**what, **measured))
    frame = pd.concat(frames, ignore_index=True).rename(columns={"counted": "value"})
    frame = frame.rename(columns={name: f"x_{name}" for name in ("decile", "rows", "updates")})
    return frame.assign(task="epoch", model="SGD", phase="train", metric="counted")


def scattered(n_users, n_items, nnz):
    """Ratings at random places, each at most once."""
    cells = np.random.default_rng(0).permutation(n_users * n_items)[:nnz]
    name = f"random-{n_users}x{n_items}"
    return Ratings(cells // n_items, cells % n_items, np.ones(nnz), n_users, n_items, name=name)


class Side:
    """The users or the items of a rating set, and which of their ratings are marked.

    Attributes
    ----------
    place : 0 of users, 1 of items
    rows : int (nnz,), the row of each rating
    n_ratings : int64 (rows,)
    marked : bool (nnz,)
    """

    def __init__(self, ratings, whose):
        self.ratings, self.place, self.rows = ratings, int(whose == "items"), getattr(ratings, whose)
        self.n_ratings = np.bincount(self.rows, minlength=(ratings.n_users, ratings.n_items)[self.place])
        self.marked = positional_hash(ratings.nnz, 0) * 2.0**-64 < MARKED / self.n_ratings[self.rows]
        self._once = self._counted(self.rows), self._counted(self.rows[self.marked])
        self._drawn = {}

    def _counted(self, rows):
        return np.bincount(rows, minlength=len(self.n_ratings))

    @cached_property
    def by_user(self):
        """The positions of the ratings in the order of users and items."""
        return np.lexsort((self.ratings.items, self.ratings.users))

    def taken(self, model, trainer, epoch):
        """How many updates of an epoch each row is given, and how many of these are marked: int64 (rows,) each."""
        if isinstance(trainer, Updates) or model.solver == "cu2rec":
            key = isinstance(trainer, Updates), epoch
            if key not in self._drawn:  # the same for any number of factors and all versions of cu2rec
                positions = self._positions(model, trainer, epoch)
                drawn = self.rows[positions]
                self._drawn[key] = self._counted(drawn), self._counted(drawn[self.marked[positions]])
            return self._drawn[key]
        return self._once

    def _positions(self, model, trainer, epoch):
        """The positions of the ratings that an epoch draws."""
        nnz, key, train = self.ratings.nnz, draw_key(model.hyperparameters), self.ratings
        if isinstance(trainer, Updates):
            return random_positions(key, epoch * nnz + np.arange(nnz), nnz)
        rows = train.by_user
        users = np.flatnonzero(rows.counts)
        n_steps = trainer.steps_an_epoch(train)
        draws = (epoch * n_steps + np.arange(n_steps))[:, None] * train.n_users + users
        return self.by_user[(rows.indptr[users] + random_positions(key, draws, rows.counts[users])).ravel()]


def counts(side, /, factors, epochs, kernel, device, **options):
    """Train on marked ratings, and count what is left of their updates.

    side : Side, whose rows are looked at; the values of its ratings do not matter
    factors, epochs, kernel, device, **options : of `SGD`

    Yield (epoch, seconds, taken, share) : int; float; int64 (rows,), the updates that each row of the side was given,
    and float64 (rows,), the share of them that is left, NaN where none of them was marked
    """
    ratings = side.ratings
    rate = 2.0 ** np.floor(np.log2(_DRIFT / (factors * epochs * side.n_ratings.max())))
    start = [np.ones((n, factors), np.float32) for n in (ratings.n_users, ratings.n_items)]
    start[side.place][:] = 0
    model = SGD(factors, 0, learning_rate=rate, solver=kernel, device=device, biases=False, clip=False, **options)
    values = np.where(side.marked, np.float32(STEP / rate), np.float32(0))
    train = replace(ratings, values=values, test_mask=None)
    on = None if device == "cpu" else backends.device(device)
    trainer = model.make_solver(DeviceRatings.of(train, on) if on else train, *start)
    time, to_numpy = (on.time, on.to_numpy) if on else (seconds_of, np.array)
    before = np.zeros(len(side.n_ratings))
    for epoch in range(epochs):
        (seconds,) = time(lambda number=epoch: trainer.epoch(number), repeats=1, warmup=0)
        moved = to_numpy(trainer.factors()[side.place]).mean(axis=1, dtype=np.float64) / STEP
        taken, marked = side.taken(model, trainer, epoch)
        share = np.divide(moved - before, marked, out=np.full(len(moved), np.nan), where=marked > 0)
        yield epoch, seconds, taken, share
        before = moved


def deciles(n_ratings, taken, share):
    """Sums over the rows of each decile of popularity: DataFrame of decile, rows, updates, counted."""
    known = np.flatnonzero(np.isfinite(share) & (n_ratings > 0))
    by_popularity = known[np.argsort(n_ratings[known], kind="stable")]
    return pd.DataFrame(
        {"decile": decile, "rows": len(members), "updates": taken[members].sum(),
         "counted": (taken[members] * share[members]).sum()}
        for decile, members in enumerate(np.array_split(by_popularity, 10), 1) if len(members)
    )  # fmt: skip


def summary(frame):
    """Return what is left of each scheme's updates, a row a data set, scheme, device and number of factors.

    Columns are of_users, of_items (shares of the updates that count), of_popular_items (of the tenth of the items
    with the most ratings), attempted_per_second (median over the epochs but the first), effective_per_second (of an
    update, which moves two rows, each counts for a half).
    """
    names = ["data", "scheme", "device", "factors"]
    rows = []
    for key, runs in frame.assign(scheme=sgd_schemes.labels(frame)).groupby(names, sort=False):
        sums = runs.groupby("x_side")[["x_updates", "value"]].sum()
        share = sums.value / sums.x_updates
        of_items = runs[runs.x_side == "items"]
        popular = of_items[of_items.x_decile == of_items.x_decile.max()]
        attempted = (runs.x_nnz / runs.seconds)[runs.repeat > 0].median()
        found = {"of_users": share.users, "of_items": share["items"], "attempted_per_second": attempted}
        found |= {"of_popular_items": popular.value.sum() / popular.x_updates.sum()}
        found |= {"effective_per_second": attempted * (share.users + share["items"]) / 2}
        rows.append(dict(zip(names, key, strict=True)) | found)
    return pd.DataFrame(rows)


def figure(frame):
    """Draw the share of the items' updates that count by popularity, a row a scheme, a panel a data set.

    Of the largest number of factors.
    """
    frame = frame.assign(scheme=sgd_schemes.labels(frame))
    shown = frame[(frame.x_side == "items") & (frame.factors == frame.factors.max())]
    names, order = shown.data.unique(), list(shown.scheme.unique())[::-1]
    figure, (axes,) = style.panels(columns=len(names), height=1.6 + 0.24 * len(order), sharey=True)
    for axis, name in zip(axes, names, strict=True):
        sums = shown[shown.data == name].groupby(["scheme", "x_decile"])[["x_updates", "value"]].sum()
        share = (sums.value / sums.x_updates).unstack().reindex(order)
        image = axis.pcolormesh(share.columns, np.arange(len(order)), share, vmin=0, vmax=1, cmap="viridis")
        axis.set_yticks(np.arange(len(order)), [_name(label) for label in order])
        title = style.data_name(name).replace(" (", "\n(")
        axis.set(xlabel="decile of items\nby popularity", title=title, xticks=[1, 5, 10])
        axis.grid(False)
    bar = figure.colorbar(image, ax=list(axes)).ax
    bar.set_xlabel("share of\nupdates", labelpad=8)
    bar.xaxis.set_label_position("top")
    return figure


def _name(label):
    """What readers call a label of SCHEMES."""
    solver, *variant = label.split(", ", 1)
    return ", ".join([style.LOOKS["SGD", solver].name, *variant])


APART = [label for label in SCHEMES if label.startswith("cu2rec")] + ["newgpusgd, FP64"]
"""What `cost` has nothing to say of: cu2rec loses updates by design; NewGPUSGD is there in single precision."""


def cost(frame, ended):
    """Return by scheme what it loses and what that costs on one data set, with the largest number of factors.

    frame : of `run`
    ended : of `sgd_schemes.summary`, of the same data set

    Return a DataFrame with the index scheme and the columns lost (share of the items' updates), gap and spread (of
    the RMSE)
    """
    table = summary(frame)
    table = table[(table.factors == table.factors.max()) & table.data.isin(ended.data)].set_index("scheme")
    return ended.set_index("scheme")[["gap", "spread"]].assign(lost=1 - table.of_items).dropna()


def figure_cost(table, data):
    """Draw the RMSE above the reference, a row a solver with the share of updates it loses; table : of `cost`."""
    table = table.sort_values(["lost", "gap"], ascending=[True, False])[::-1]
    figure, ((axis,),) = style.panels(height=1.0 + 0.26 * len(table))
    place, races = np.arange(len(table)), table.lost > 0.01
    axis.axvline(0, color="0.6", linewidth=0.8)
    style.marks(axis, table.gap, place, list(np.where(races, "purple", "green")), spread=table.spread)
    for y, row in enumerate(table.itertuples()):
        text = f"{row.gap:+z.4f}" + (f", {100 * row.lost:.0f} % lost" if row.lost > 0.01 else "")
        beside = {"textcoords": "offset points", "size": style.SMALL, "va": "center"}
        axis.annotate(text, (row.gap + row.spread, y), (6, 0), **beside)
    axis.set_yticks(place, map(_name, table.index))
    axis.set(xlabel=f"test RMSE above the CPU's, {style.data_name(data)}")
    axis.set_xlim(right=4 * (table.gap + table.spread).max())  # room for what stands beside the marks
    return figure
