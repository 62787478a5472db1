"""Baselines of word vectors: factor models of the same text, compared on the same questions.

Word vectors have no dev or test set, so that they are compared when questions are evaluated. Tested in
tests/tasks/embed/test_baselines.py.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from catena.errors import ConfigError
from catena.registry import did_you_mean
from catena.tasks.base import EvaluationResult
from catena.tasks.baselines.fitting import check_installed
from catena.tasks.baselines.report import BaselineReport, BaselineRow, OwnBaselines, paired_comparison
from catena.tasks.embed.config import EmbedConfig
from catena.tasks.embed.predict import Query
from catena.tasks.embed.training import read_corpus
from catena.tasks.sources import Sources
from catena.vectors.config import FACTOR_KINDS, VectorConfig
from catena.vectors.corpus import VectorCorpus
from catena.vectors.factors import fit_factors
from catena.vectors.table import VectorTable


class FactorBaselines(OwnBaselines):
    """Factor models of the text of a run.

    Args:
        task: the :class:`~catena.tasks.embed.task.EmbedTask` of the run.
    """

    def __init__(self, task: Any) -> None:
        self.task = task

    def report(self, run: Path, names: Sequence[str], examples: Sequence[Query], file: str) -> BaselineReport:
        for name in names:
            if name not in FACTOR_KINDS:
                raise ConfigError(f"Unknown baseline {name!r} of word vectors: {did_you_mean(name, FACTOR_KINDS)}")
        version = check_installed()
        config: EmbedConfig = self.task.config
        corpus = read_corpus(config, Sources(type(self.task), config), None)
        began = time.monotonic()
        result = self.task.evaluate(examples)
        seconds = time.monotonic() - began
        (metric,) = result.metrics()
        own_bytes = self.task.vectors.matrix.nbytes
        own = BaselineRow(f"this model ({config.model.kind})", result.scores(), None, seconds, own_bytes)
        rows = tuple(self._compare(name, corpus, examples, result, metric) for name in dict.fromkeys(names))
        return BaselineReport(file, "question", len(result.references), metric, True, own, rows, version)

    def _compare(
        self, name: str, corpus: VectorCorpus, examples: Sequence[Query], own: EvaluationResult, metric: str
    ) -> BaselineRow:
        """Fit a factor model to the text, and compare it on the questions."""
        config = factor_config(self.task.config, name, len(corpus.words))
        began = time.monotonic()
        model, _ = fit_factors(config, corpus)
        fitted = time.monotonic()
        table = VectorTable.of_model(model)
        theirs = type(self.task)(config, table, model).evaluate(examples)
        predicted = time.monotonic()
        about = f"{model.d} dimensions on {config.model.weights} of {config.model.counts}"  # type: ignore[union-attr]
        comparison = paired_comparison(own, theirs, metric)
        times = (fitted - began, predicted - fitted)
        return BaselineRow(name, theirs.scores(), *times, table.matrix.nbytes, comparison, about)


def factor_config(config: EmbedConfig, kind: str, n_words: int) -> EmbedConfig:
    """The config with a factor model of the same window, and of the same dimension if there are enough words."""
    d = min(config.model.d, n_words - 1)
    options = {"model": {"kind": kind, "d": d, "window": config.model.window}}
    model = VectorConfig.model_validate(options).model
    defaults = VectorConfig()
    unused = {"loss": defaults.loss, "training": defaults.training, "subwords": defaults.subwords}
    return config.model_copy(update={"model": model, **unused})
