"""Small files in the layouts of the published sets, and what is read back from them."""

import zipfile
from functools import partial

from gpumf.ratings import load_dataset

PAIRS = {(1, 10): 4.0, (1, 20): 2.0, (7, 10): 5.0, (30, 20): 1.0}

load = partial(load_dataset, allow_incomplete=True)
"""Most files here are small ones in the layout of a large set."""


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def archive(path, members):
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, text in members.items():
            file.writestr(name, text)
    return path


def as_pairs(ratings):
    users, items = ratings.user_ids[ratings.users], ratings.item_ids[ratings.items]
    return {(u, i): float(v) for u, i, v in zip(users, items, ratings.values, strict=True)}


def lines(template, pairs=PAIRS, header=""):
    return header + "".join(template.format(u=u, i=i, r=int(r)) + "\n" for (u, i), r in pairs.items())


ONE_A_LINE = [
    ("ml-100k", "u.data", "{u}\t{i}\t{r}\t881250949", ""),
    ("ml-1m", "ratings.dat", "{u}::{i}::{r}::978300760", ""),
    ("ml-10m", "ml-10M100K/ratings.dat", "{u}::{i}::{r}::838985046", ""),
    *[
        (name, f"{name}/ratings.csv", "{u},{i},{r}.0,964982703", "userId,movieId,rating,timestamp\n")
        for name in ("ml-latest-small", "ml-20m", "ml-25m", "ml-32m")
    ],
    ("douban", "uir.index", "{u} {i} {r}", ""),
    ("douban", "uir.index", "{u}\t{i}\t{r}", ""),
]
