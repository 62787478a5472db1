"""Small data and trained models for the tests of regression."""

from __future__ import annotations

from typing import Any

import numpy as np

from catena.data.splits import Splits
from catena.tasks.regress.estimator import Regressor

WORDS = ("red", "green", "blue", "small", "large", "old", "new", "cheap", "dear", "fine")
KINDS = ("linear", "ridge", "kernel_ridge", "mlp", "cnn", "recurrent", "convolution", "transformer")
FITTED = KINDS[:3]


def make_texts(n: int, seed: int = 0) -> tuple[list[str], np.ndarray]:
    """Texts, and the sum of a weight for each word."""
    rng, weights = np.random.default_rng(seed), np.linspace(-2, 2, len(WORDS))
    ids = rng.integers(0, len(WORDS), (n, 4))
    return [" ".join(WORDS[i] for i in row) for row in ids], weights[ids].sum(1) + 10 + 0.1 * rng.normal(size=n)


def make_table(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows of three numbers, and a value of the first two."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3)) * (1.0, 10.0, 5.0)
    return x, 3 * x[:, 0] - 0.2 * x[:, 1] + 100 + 0.1 * rng.normal(size=n)


def train(kind: str, n: int = 80, table: bool = False, **options: Any) -> Regressor:
    """A small model of a kind, trained for a few steps."""
    steps = {} if kind in FITTED else {"max_steps": 6, "threads": 1}
    x, y = make_table(n) if table else make_texts(n)
    return Regressor(kind, **{**steps, **options}).fit(x, y)


def split(keys: list[str], dev_fraction: float = 0.1) -> tuple[np.ndarray, np.ndarray]:
    """The rows of train and dev of examples with these keys."""
    index = Splits(dev_fraction=dev_fraction, by="hash", seed=0).rows(keys, [None] * len(keys))
    return np.asarray(index.train), np.asarray(index.dev)
