"""Test RMSE of ESGD against iterations on its three data sets, with its parameters, in two orders of the ratings.

After Nassar et al., section 4, Tables 1 and 2: k = 16, a tenth of the ratings held out, fixed learning rates,
baseline predictors subtracted. Of MovieLens 1M it trained on 810,082 ratings and tested 89,915, a tenth of all less
than there are; here all are split. Its least errors are the least on its test ratings over all iterations, and so are
those here. The noise of the synthetic data sets was set so that a good model reaches the published errors.
"""

from gpumf import SGD, backends
from gpumf_study import figure_style as style
from gpumf_study import sweep
from gpumf_study.claims import Claim, below
from gpumf_study.experiments import _published, kernels_unavailable

FILE, SHUFFLED = "file order", "shuffled"
ORDERS = {FILE: {}, SHUFFLED: {"shuffle": True}}  # of the ratings: as published, and random

PROFILES = {
    "quick": {"data": ["ml-100k-synthetic"], "part": [120, 100], "factors": 4, "th_size": 40, "st": 2, "epochs": 8,
              "repeats": 2},
    "full": {"data": ["ml-100k", "ml-1m", "ml-10m-synthetic"], "part": None, "factors": 16, "th_size": 1000,
             "st": 2, "epochs": 30, "repeats": 5},
}  # fmt: skip
PROFILES["smoke"] = PROFILES["quick"] | {"part": [60, 50], "epochs": 3}

why_unavailable = kernels_unavailable


def published(quantity, data, figure_or_table="Table 1"):
    """Return what the publication states of a data set, or of that with whose shape this one was generated."""
    return _published.value(figure_or_table, quantity, data.removesuffix("-synthetic"), source="esgd")


def rates(data):
    """Return lambda and gamma of Table 1, as arguments of SGD."""
    return {name: published(name.replace("_", " "), data) for name in ("regularization", "learning_rate")}


def run(data, part, factors, th_size, st, epochs, repeats):
    """Train with both orders of the ratings, from the same split."""
    device = "cuda" if backends.available() else "emulator"

    def models(train, repeat):
        name = train.name.split(",")[0]
        for order, options in ORDERS.items():
            options = options | rates(name) | {"th_size": th_size, "st": st, "biases": "baseline", "clip": False}
            model = SGD(factors, solver="esgd", device=device, seed=repeat, **options)
            yield {"variant": order, "x_users": train.n_users, "x_items": train.n_items}, model

    return sweep.sweep(models, data, epochs, repeats, part=part)


def least(frame):
    """Return the epoch of the least RMSE of each training, before it diverged where it did."""
    return sweep.best_epoch(frame.fillna({"value": float("inf")}))


def deviations(frame):
    """Return by data set and repeat the larger deviation of users and items from Table 1."""
    counts = {"x_users": "users", "x_items": "items"}
    table = frame.groupby(["data", "repeat"], as_index=False)[[*counts]].first()
    stated = {column: table.data.map(lambda name, of=of: published(of, name)) for column, of in counts.items()}
    return table.assign(deviation=(table.assign(**stated)[[*counts]] / table[[*counts]] - 1).abs().max(axis=1))


def gaps(frame):
    """Return by real data set and repeat the least RMSE in file order minus that of shuffled ratings."""
    found = least(sweep.real_data(frame))
    table = found.pivot(index=["data", "repeat"], columns="variant", values="value")
    return (table[FILE] - table[SHUFFLED]).rename("gap").reset_index()


def figure(frame):
    """Draw test RMSE against iterations, a line an order (medians), a panel a data set; dotted: as published."""
    names = frame.data.unique()
    figure, (axes,) = style.panels(columns=len(names), height=3.4)
    for axis, name in zip(axes, names, strict=True):
        runs = sweep.course(frame[frame.data == name], "rmse")
        for order, scheme in ((FILE, "esgd"), (SHUFFLED, "esgd, shuffled")):
            of_order = runs[(runs.variant == order) & (runs.epoch > 0)]
            style.curve(axis, of_order.groupby("epoch").value.median(), "SGD", scheme)
        reached = published("least error", name, "Table 2")
        axis.axhline(reached, linestyle=":", color=style.COLOURS["black"], label="published")
        found = least(frame[frame.data == name]).value.median()
        axis.set(xlabel="iterations", ylabel="test RMSE")
        axis.set_title(f"{style.data_name(name)}\nleast: {found:.4f}\npublished: {reached:.4f}", size=10)
    style.legend(figure, axes[0], 3)
    return figure


def _of(data, column):
    return {"column": column, "where": {"data": data, "variant": FILE}}


_WIDTH = "the width of the distribution of initial factors, on which it depends"
CLAIMS = [
    Claim("esgd-table-1", "esgd", "Table 1",
          "Users and items of Table 1: larger deviation from those with ratings, as a share, MovieLens 1M.",
          metric="median", select={"column": "deviation", "where": {"data": "ml-1m"}}, table=deviations),
    *(Claim(f"esgd-table-2-{data}{end}", "esgd", "Table 2",
            f"{what}, {style.data_name(data)}.", published(quantity, data, "Table 2"), "median", missing=_WIDTH)
      for data in ("ml-100k", "ml-1m")
      for end, quantity, what in (("", "least error", "Least test RMSE over all iterations"),
                                  ("-iterations", "iterations", "Iterations until the least test RMSE"))),
    Claim("esgd-table-2-ml-10m-synthetic", "esgd", "Table 2",
          "Least test RMSE over all iterations, MovieLens 10M (synthetic).",
          published("least error", "ml-10m", "Table 2"), "median", _of("ml-10m-synthetic", "value"),
          evidence="built in", table=least),
    Claim("esgd-order", "esgd", "Table 2",
          "Least test RMSE on ratings sorted by user minus that on shuffled ones, MovieLens 1M.", metric="median",
          select={"column": "gap", "where": {"data": "ml-1m"}}, criterion=below(0.005), table=gaps),
]  # fmt: skip
