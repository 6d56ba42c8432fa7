"""More of the mathematics in float64 NumPy, beside `gpumf.backends.cpu.reference`: machines, lists, draws."""

import numpy as np


def rbm_hidden(chosen, weights, hidden_biases):
    """p(h_j = 1 | v) (thesis, equation 2.32).

    chosen : (users, n_items, K), one where the user gave the item the level, else zero
    weights : (n_items, K, hidden)
    hidden_biases : (hidden,)
    Returns float64 (users, hidden)
    """
    return 1 / (1 + np.exp(-(hidden_biases + np.einsum("uik,ikj->uj", chosen, weights.astype(np.float64)))))


def rbm_visible(units, weights, visible_biases):
    """p(v_i = k | h) (thesis, equation 2.31).

    units : (users, hidden)
    weights : (n_items, K, hidden)
    visible_biases : (n_items, K)
    Returns float64 (users, n_items, K)
    """
    inputs = visible_biases + np.einsum("uj,ikj->uik", units, weights.astype(np.float64))
    odds = np.exp(inputs - inputs.max(axis=-1, keepdims=True))
    return odds / odds.sum(axis=-1, keepdims=True)


def contrastive_divergence(chosen, weights, visible_biases, hidden_biases, draws):
    """What a batch of users says of how to change the parameters of an RBM (thesis, Algorithm 4.2, equation 4.3).

    chosen : (users, n_items, K), one where the user gave the item the level, else zero
    weights, visible_biases, hidden_biases : (n_items, K, hidden), (n_items, K) and (hidden,)
    draws : for each step of Gibbs sampling uniform numbers for hidden units, (users, hidden), and for visible ones,
        (users, n_items). A hidden unit is on where its number is below its probability; a visible one takes the first
        level up to which the probabilities add up to more than its number.
    Returns (positive, negative, reconstruction): p(h | v) and p(h | v') (users, hidden), and v', as `chosen`
    gradients : of weights, visible and hidden biases: sums over the batch, of their shapes
    """
    rated = chosen.any(axis=-1, keepdims=True)
    positive = negative = rbm_hidden(chosen, weights, hidden_biases)
    for hidden_draws, visible_draws in draws:
        probabilities = rbm_visible(hidden_draws < negative, weights, visible_biases)
        below = np.cumsum(probabilities[..., :-1], axis=-1) <= visible_draws[..., None]
        reconstruction = np.eye(chosen.shape[-1])[below.sum(axis=-1)] * rated
        negative = rbm_hidden(reconstruction, weights, hidden_biases)
    statistics = positive, negative, reconstruction
    data, model = (
        (np.einsum("uik,uj->ikj", v, h), v.sum(axis=0), h.sum(axis=0))
        for v, h in ((chosen, positive), (reconstruction, negative))
    )
    return statistics, tuple(a - b for a, b in zip(data, model, strict=True))


def rbm_expectations(units, weights, visible_biases, level_values):
    """Expected ratings, float64 (users, n_items) (thesis, equation 2.34); arguments as of `rbm_visible`."""
    return rbm_visible(units, weights, visible_biases) @ np.asarray(level_values, np.float64)


def top_items(p, q, users, candidates, seen, k):
    """The k best candidates, by p_u . q_i, that a user has not seen; of equal scores the lower position first.

    p, q : (n_users, f) and (n_items, f)
    users : positions (n,)
    candidates : bool (n_items,)
    seen : CompressedRows of the users
    Returns (items, scores): int64 and float64 (n, k); -1 and NaN where there are fewer candidates
    """
    p, q = np.asarray(p, np.float64), np.asarray(q, np.float64)
    items, scores = np.full((len(users), k), -1), np.full((len(users), k), np.nan)
    for row, user in enumerate(users):
        free = candidates.copy()
        free[seen.indices[seen.indptr[user] : seen.indptr[user + 1]]] = False
        positions = np.flatnonzero(free)
        dots = q[positions] @ p[user]
        best = np.argsort(-dots, kind="stable")[:k]
        items[row, : len(best)], scores[row, : len(best)] = positions[best], dots[best]
    return items, scores


def ranking_metrics(items, relevant):
    """Precision, recall, average precision and NDCG (binary relevance) of one list.

    items : positions (k,), best first; -1 is no item
    relevant : positions of the test items, at least one
    """
    k, hit = len(items), np.isin(items, relevant)
    ranks = np.arange(1, k + 1)
    most = min(k, len(relevant))
    average_precision = (np.cumsum(hit) / ranks)[hit].sum() / most
    discounts = 1 / np.log2(ranks + 1)
    return hit.sum() / k, hit.sum() / len(relevant), average_precision, discounts[hit].sum() / discounts[:most].sum()


def drawn_rows(rows, fixed, prior, noise, precision):
    """Factors drawn from their distributions given the other side's (Salakhutdinov and Mnih 2008, equation 11).

    rows : CompressedRows
    fixed : (columns, f), the factors of the other side
    prior : (f, f + 1), the precision matrix Lambda and, the last column, Lambda mu
    noise : (rows, f), standard normal
    precision : of a rating
    Returns float64 (rows, f)
    """
    prior, fixed, drawn = np.asarray(prior, np.float64), np.asarray(fixed, np.float64), np.empty(noise.shape)
    for row, (begin, end) in enumerate(zip(rows.indptr[:-1], rows.indptr[1:], strict=True)):
        v = fixed[rows.indices[begin:end]]
        a, b = prior[:, :-1] + precision * v.T @ v, prior[:, -1] + precision * v.T @ rows.values[begin:end]
        drawn[row] = np.linalg.solve(a, b) + np.linalg.solve(np.linalg.cholesky(a).T, noise[row])
    return drawn
