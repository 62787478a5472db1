"""The config of baselines. Imports no torch.

Tested in tests/tasks/regress/test_baselines.py and tests/tasks/classify/test_baselines.py.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from catena.config import Config

BaselineName = Literal["majority", "logistic", "ridge", "svm", "svm_rbf"]
"""Baselines of classification."""
RegressBaselineName = Literal["mean", "linear", "ridge", "svr", "svr_rbf"]
"""Baselines of regression."""


class BaseBaselinesConfig(Config):
    """Options of the baselines of every task."""

    baseline: tuple[str, ...] = ()
    """Models of scikit-learn to compare with, separated by commas."""
    baseline_c: Annotated[tuple[Annotated[float, Field(gt=0)], ...], Field(min_length=1)] = (0.25, 1.0, 4.0)
    """Values of C, the inverse strength of the penalty (ridge: alpha = 1 / 2C). The best on dev is used."""
    baseline_ngrams: int = Field(2, ge=1, le=10)
    """For texts: maximum length of the token n-grams of the TF-IDF features."""
    baseline_examples: int = Field(20_000, ge=2)
    """Maximum number of training examples of models with a kernel, whose time grows with their square; others are left
    out."""


class BaselinesConfig(BaseBaselinesConfig):
    """Models of scikit-learn that are fitted to the same data and compared with the model of the run."""

    baseline: tuple[BaselineName, ...] = ()
    """Models of scikit-learn to compare with: majority (the most frequent label), logistic (regression), ridge, svm
    (linear) or svm_rbf; separated by commas. They read TF-IDF of the same tokens, pixels, or log-mel statistics."""
    baseline_components: int = Field(60, ge=1)
    """For pictures: number of principal components of the pixels."""


class RegressBaselinesConfig(BaseBaselinesConfig):
    """Models of scikit-learn that are fitted to the same data and compared with the model of the run."""

    baseline: tuple[RegressBaselineName, ...] = ()
    """Models of scikit-learn to compare with: mean (of the training values), linear, ridge, svr (linear) or svr_rbf;
    separated by commas. They read TF-IDF of the same tokens, and the same numbers."""
