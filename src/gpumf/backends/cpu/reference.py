"""The mathematics in float64 NumPy, as close to the formulas as code gets; what every kernel is checked against."""

from dataclasses import replace

import numpy as np

from gpumf._util.counter_rng import random_positions


def als_update(rows, fixed, regularization, weighted=True, pinned=None):
    """Solve every row's normal equations (thesis, equations 5.1 and 5.2).

    rows : CompressedRows
    fixed : (columns, f), the factors of the other side
    regularization : lambda
    weighted : bool, lambda times the number of the row's ratings (Zhou et al. 2008) instead of lambda
    pinned : the column of the solutions that is 1, where there is one
    Returns float64 (rows, f); zeros for a row without ratings, but for the pinned column
    """
    fixed = np.asarray(fixed, np.float64)
    if pinned is not None:
        of_ones, others = fixed[:, pinned], np.delete(fixed, pinned, axis=1)
        left = rows.values - of_ones[rows.indices]
        solved = als_update(replace(rows, values=left), others, regularization, weighted)
        return np.insert(solved, pinned % fixed.shape[1], 1, axis=1)
    factors = fixed.shape[1]
    solved = np.zeros((rows.n_rows, factors))
    for row, (begin, end) in enumerate(zip(rows.indptr[:-1], rows.indptr[1:], strict=True)):
        if begin < end:
            v = fixed[rows.indices[begin:end]]
            ridge = regularization * (end - begin if weighted else 1)
            a = v.T @ v + ridge * np.eye(factors)
            solved[row] = np.linalg.solve(a, v.T @ rows.values[begin:end].astype(np.float64))
    return solved


def implicit_update(rows, fixed, regularization, alpha, unobserved_weight=1.0, exponent=0.0):
    """Solve every row's normal equations for implicit feedback (Hu, Koren, Volinsky 2008; cumf, section 5.6).

    A rating r > 0 says that the column was chosen, any other that it was not, with the weight w0 + alpha |r|; every
    column without a rating was not, with the weight w0. A row with n ratings has lambda (n + w0 columns)^exponent
    (Rendle et al. 2022).

    rows : CompressedRows
    fixed : (columns, f), the factors of the other side
    regularization : lambda
    alpha : confidence a rating
    unobserved_weight, exponent : w0 and the exponent of lambda
    Returns float64 (rows, f); zeros for a row without ratings
    """
    fixed = np.asarray(fixed, np.float64)
    everything, eye = unobserved_weight * fixed.T @ fixed, np.eye(fixed.shape[1])
    solved = np.zeros((rows.n_rows, fixed.shape[1]))
    for row, (begin, end) in enumerate(zip(rows.indptr[:-1], rows.indptr[1:], strict=True)):
        chosen = rows.values[begin:end] > 0
        if chosen.any():
            v = fixed[rows.indices[begin:end]]
            weights = alpha * np.abs(rows.values[begin:end].astype(np.float64))
            ridge = regularization * (end - begin + unobserved_weight * len(fixed)) ** exponent
            system = everything + (v.T * weights) @ v + ridge * eye
            solved[row] = np.linalg.solve(system, v.T @ (chosen * (unobserved_weight + weights)))
    return solved


def sgd_replay(ratings, order, p, q, steps, biases=0, sides="both", stored=None, rates=None):
    """Updates of SGD one after another (thesis, Algorithm 4.1; with biases, cu2rec), in a given order of the ratings.

    ratings : Ratings, counted from their mean where there are biases
    order : positions of the ratings, each as often as it counts
    p, q : (n_users, columns) and (n_items, columns)
    steps : learning rate and lambda of the users and of the items; with biases of theirs too
    biases : 0, 1 or 2, as BIASES of kernels/common/sgd.cuh
    sides : 'both', or 'users' or 'items' alone (Algorithm 2.2)
    stored : dtype to which factors are rounded after every update; float64 by default
    rates : of each user and of each item, in units of the learning rate; 1 by default
    Returns (p, q): float64 copies of the given factors after the updates
    """
    user_rates, item_rates = rates or (np.ones(len(p)), np.ones(len(q)))
    p, q = p.astype(np.float64), q.astype(np.float64)
    columns = np.arange(p.shape[1])
    plain = columns < p.shape[1] - (2 if biases else 0)
    learned_p, learned_q = plain.copy(), plain.copy()
    if biases == 1:
        learned_p[-2] = learned_q[-1] = True
    rate, user_reg, item_reg, user_bias_reg, item_bias_reg = (*steps, 0, 0)[:5]
    p_reg, q_reg = np.where(plain, user_reg, user_bias_reg), np.where(plain, item_reg, item_bias_reg)
    for t in order:
        u, i = ratings.users[t], ratings.items[t]
        error = p[u] @ q[i] - np.float64(ratings.values[t])
        new_p = p[u] - learned_p * rate * user_rates[u] * (error * q[i] + p_reg * p[u])
        new_q = q[i] - learned_q * rate * item_rates[i] * (error * p[u] + q_reg * q[i])
        if sides != "items":
            p[u] = new_p.astype(stored)
        if sides != "users":
            q[i] = new_q.astype(stored)
    return p, q


def hogwild(ratings, p, q, steps, key, first_update, n_updates, biases=0):
    """`sgd_replay` on the samples that the kernels draw.

    Returns (p, q): float64 copies of the given factors after the updates
    """
    draws = np.arange(first_update, first_update + n_updates, dtype=np.uint64)
    samples = random_positions(key, draws, ratings.nnz)
    return sgd_replay(ratings, samples, p, q, steps, biases)


def cu2rec_step(ratings, p, q, steps, biases, key, step, first_user, conflict):
    """A step of cu2rec, the users one after another: of each one rating of its CSR row, drawn as the kernel does.

    conflict : 'early_bird_gets', the first update of an item counts; 'early_bird_loses', the last one; 'atomic', all
    Returns (p, q): float64 copies of the given factors after the step
    """
    rows, n = ratings.by_user, ratings.n_users
    before, new_q = q.astype(np.float64), q.astype(np.float64)
    p, seen = p.astype(np.float64), set()
    for user in (np.arange(n) + first_user) % n:
        if rows.counts[user] == 0:
            continue
        t = rows.indptr[user] + random_positions(key, step * n + user, rows.counts[user])
        item = rows.indices[t]
        one = type(ratings)([user], [item], [rows.values[t]], n, ratings.n_items)
        read = new_q if conflict == "atomic" else before
        p, q_of_item = sgd_replay(one, [0], p, read, steps, biases)
        if conflict != "early_bird_gets" or item not in seen:
            new_q[item] = q_of_item[item]
        seen.add(item)
    return p, new_q


def sum_errors(ratings, p, q):
    """(sum |e|, sum e^2) over e = p_u . q_i - r_ui (thesis, equation 6.1)."""
    p, q = np.asarray(p, np.float64), np.asarray(q, np.float64)
    error = np.einsum("tk,tk->t", p[ratings.users], q[ratings.items]) - ratings.values
    return np.abs(error).sum(), (error**2).sum()
