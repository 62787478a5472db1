"""One number, one gradient after the other, by the formulas of the papers. Imports nothing but math."""

from __future__ import annotations

import math
from collections.abc import Iterable


def sgd(w: float, gradients: Iterable[float], rate: float, momentum: float = 0.0, decay: float = 0.0) -> float:
    """Polyak 1964 as most libraries write it: b <- m b + g, w <- w - rate b; the first b is g."""
    b = 0.0
    for g in gradients:
        b = momentum * b + (g + decay * w)
        w = w - rate * b
    return w


def adam(
    w: float,
    gradients: Iterable[float],
    rate: float,
    beta1: float,
    beta2: float,
    eps: float,
    decay: float = 0.0,
    decoupled: bool = False,
) -> float:
    """Kingma & Ba 2015, algorithm 1; with ``decoupled`` decay Loshchilov & Hutter 2019, algorithm 2."""
    m = v = 0.0
    for t, g in enumerate(gradients, start=1):
        if decoupled:
            w = w - rate * decay * w
        else:
            g = g + decay * w
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g * g
        w = w - rate * (m / (1 - beta1**t)) / (math.sqrt(v / (1 - beta2**t)) + eps)
    return w


def adagrad(w: float, gradients: Iterable[float], rate: float, eps: float, decay: float = 0.0) -> float:
    """Duchi et al. 2011, section 1.1, with a diagonal matrix."""
    total = 0.0
    for g in gradients:
        g = g + decay * w
        total += g * g
        w = w - rate * g / (math.sqrt(total) + eps)
    return w


def adadelta(w: float, gradients: Iterable[float], rate: float, rho: float, eps: float, decay: float = 0.0) -> float:
    """Zeiler 2012, algorithm 1."""
    v = u = 0.0
    for g in gradients:
        g = g + decay * w
        v = rho * v + (1 - rho) * g * g
        delta = math.sqrt(u + eps) / math.sqrt(v + eps) * g
        u = rho * u + (1 - rho) * delta * delta
        w = w - rate * delta
    return w
