"""Recurrent networks step by step, in plain numpy and double precision. Imports nothing of catena.

Every function takes one sequence ``x`` of shape (t, d_in) and gives the states (t, d). ``u`` reads x, ``w``
reads h.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Array = np.ndarray


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def elman(x: Array, u: Array, w: Array, b: Array, f: Callable[[Array], Array]) -> Array:
    h, states = np.zeros(len(b)), []
    for x_t in x:
        h = f(u @ x_t + w @ h + b)
        states.append(h)
    return np.array(states)


def leaky(x: Array, u: Array, w: Array, b: Array, f: Callable[[Array], Array], leak: float | Array) -> Array:
    h, states = np.zeros(len(b)), []
    for x_t in x:
        h = (1 - leak) * h + leak * f(u @ x_t + w @ h + b)
        states.append(h)
    return np.array(states)


def lstm(x: Array, u: dict[str, Array], w: dict[str, Array], b: dict[str, Array]) -> Array:
    """Gates i, f, o and the new value g."""
    h = c = np.zeros(len(b["i"]))
    states = []
    for x_t in x:
        i, f, o = (sigmoid(u[k] @ x_t + w[k] @ h + b[k]) for k in "ifo")
        c = f * c + i * np.tanh(u["g"] @ x_t + w["g"] @ h + b["g"])
        h = o * np.tanh(c)
        states.append(h)
    return np.array(states)


def peephole_lstm(
    x: Array, u: dict[str, Array], w: dict[str, Array], b: dict[str, Array], p: dict[str, Array]
) -> Array:
    """``p`` reads the memory, by one matrix over [c, h, x]; a vector is a diagonal matrix."""
    h = c = np.zeros(len(b["i"]))
    whole = {k: np.hstack((p[k] if p[k].ndim == 2 else np.diag(p[k]), w[k], u[k])) for k in "ifo"}
    states = []
    for x_t in x:
        f = sigmoid(whole["f"] @ np.concatenate((c, h, x_t)) + b["f"])
        i = sigmoid(whole["i"] @ np.concatenate((c, h, x_t)) + b["i"])
        c = f * c + i * np.tanh(u["g"] @ x_t + w["g"] @ h + b["g"])
        o = sigmoid(whole["o"] @ np.concatenate((c, h, x_t)) + b["o"])
        h = o * np.tanh(c)
        states.append(h)
    return np.array(states)


def coupled_lstm(x: Array, u: dict[str, Array], w: dict[str, Array], b: dict[str, Array]) -> Array:
    h = c = np.zeros(len(b["f"]))
    states = []
    for x_t in x:
        f, o = (sigmoid(u[k] @ x_t + w[k] @ h + b[k]) for k in "fo")
        c = f * c + (1 - f) * np.tanh(u["g"] @ x_t + w["g"] @ h + b["g"])
        h = o * np.tanh(c)
        states.append(h)
    return np.array(states)


def gru_reset_first(x: Array, u: dict[str, Array], w: dict[str, Array], b: dict[str, Array]) -> Array:
    h, states = np.zeros(len(b["z"])), []
    for x_t in x:
        z = sigmoid(u["z"] @ x_t + w["z"] @ h + b["z"])
        r = sigmoid(u["r"] @ x_t + w["r"] @ h + b["r"])
        new = np.tanh(u["h"] @ x_t + w["h"] @ (r * h) + b["h"])
        h = (1 - z) * h + z * new
        states.append(h)
    return np.array(states)


def gru_reset_after(
    x: Array, u: dict[str, Array], w: dict[str, Array], b: dict[str, Array], b_h: dict[str, Array]
) -> Array:
    """Two biases: ``b`` added to x, ``b_h`` added to h. Here z keeps the old state."""
    h, states = np.zeros(len(b["z"])), []
    for x_t in x:
        z = sigmoid(u["z"] @ x_t + b["z"] + w["z"] @ h + b_h["z"])
        r = sigmoid(u["r"] @ x_t + b["r"] + w["r"] @ h + b_h["r"])
        new = np.tanh(u["h"] @ x_t + b["h"] + r * (w["h"] @ h + b_h["h"]))
        h = z * h + (1 - z) * new
        states.append(h)
    return np.array(states)


def elman_gradients(x: Array, labels: list[int], u: Array, w: Array, b: Array, v: Array, c: Array) -> dict[str, Array]:
    """Back-propagation through time, Goodfellow et al. 2016, equations 10.18 to 10.28, one for each line.

    h_t = tanh(U x_t + W h_{t-1} + b), o_t = V h_t + c, loss = -sum_t log softmax(o_t)[label_t].
    """
    h = elman(x, u, w, b, np.tanh)
    o = h @ v.T + c
    predicted = np.exp(o) / np.exp(o).sum(axis=1, keepdims=True)
    t = len(x)
    to_o = predicted - np.eye(len(c))[labels]  # 10.18
    to_h = np.zeros_like(h)
    to_h[t - 1] = v.T @ to_o[t - 1]  # 10.19
    for i in range(t - 2, -1, -1):
        to_h[i] = w.T @ np.diag(1 - h[i + 1] ** 2) @ to_h[i + 1] + v.T @ to_o[i]  # 10.20, 10.21
    before = np.vstack((np.zeros_like(h[0]), h[:-1]))
    return {
        "c": to_o.sum(axis=0),  # 10.22
        "b": sum(np.diag(1 - h[i] ** 2) @ to_h[i] for i in range(t)),  # 10.23
        "v": sum(np.outer(to_o[i], h[i]) for i in range(t)),  # 10.24
        "w": sum(np.outer(np.diag(1 - h[i] ** 2) @ to_h[i], before[i]) for i in range(t)),  # 10.26
        "u": sum(np.outer(np.diag(1 - h[i] ** 2) @ to_h[i], x[i]) for i in range(t)),  # 10.28
    }
