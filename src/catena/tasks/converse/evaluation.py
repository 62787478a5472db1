"""Evaluation of conversation models: a correct response among candidates, perplexity and diversity.

Ranking examples: contexts with a correct response among candidates, the same for every model.

Incorrect candidates (distractors) come from the file, or are correct responses to other contexts, sampled by a seed and
the index of the context.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from catena.data.conversations import Exchange
from catena.errors import DataError
from catena.metrics.diversity import distinct
from catena.metrics.intervals import Interval
from catena.metrics.likelihood import NATS_PER_TOKEN, PERPLEXITY
from catena.metrics.measure import Metric, MetricValue, signature
from catena.metrics.ranking import RECIPROCAL_RANK, RankCounts, recall_measure
from catena.randomness import Randomness
from catena.registry import did_you_mean
from catena.tasks.base import EvaluationResult, PairedPredictions
from catena.tasks.converse.config import ConverseConfig, ConverseEvaluationConfig


@dataclass(frozen=True)
class RankingExample:
    """A context and its candidate responses; the first one is correct."""

    exchange: Exchange
    candidates: tuple[str, ...]


Groups = list[list[RankingExample]]
"""The examples of each context, one for each of its correct responses."""


def distractor_kind(part: Sequence[Exchange], settings: ConverseEvaluationConfig) -> str:
    """The kind of distractors, with ``auto`` resolved.

    ``auto`` is ``given`` for a table of distractors or a file with enough incorrect responses for each context, and
    ``random`` otherwise.
    """
    if settings.distractors != "auto":
        return settings.distractors
    enough = all(len(exchange.wrong) >= settings.candidates - 1 for exchange in part if exchange.responses)
    return "given" if enough or any(exchange.has_distractors for exchange in part) else "random"


def build_ranking_examples(
    part: Sequence[Exchange], settings: ConverseEvaluationConfig, more: Sequence[str] = ()
) -> Groups:
    """The ranking examples of a split.

    Args:
        part: the exchanges.
        settings: number and kind of distractors.
        more: further responses to sample from if the split has too few.
    """
    kind = distractor_kind(part, settings)
    answered = [exchange for exchange in part if exchange.responses]
    return _sampled(answered, settings, more) if kind == "random" else _given(answered, kind)


def _given(answered: Sequence[Exchange], kind: str) -> Groups:
    """Examples with the distractors of the file."""
    name = "wrong" if kind == "given" else "hard"
    missing = [exchange for exchange in answered if not getattr(exchange, name)]
    if missing:
        raise DataError(
            f"{missing[0].location} has no distractors for evaluation.distractors = {kind!r}. Set it to 'random' to "
            f"sample them."
        )
    return [
        [RankingExample(exchange, (response, *getattr(exchange, name))) for response in exchange.responses]
        for exchange in answered
    ]


def _sampled(answered: Sequence[Exchange], settings: ConverseEvaluationConfig, more: Sequence[str]) -> Groups:
    """Examples whose distractors are sampled correct responses to other contexts."""
    pool = list(dict.fromkeys(response for exchange in answered for response in exchange.responses))
    randomness = Randomness(settings.seed)
    groups = []
    for i, exchange in enumerate(answered):
        generator = randomness.numpy("distractors", i)
        own = set(exchange.responses)
        others = [text for text in pool if text not in own]
        if len(others) < settings.candidates - 1:
            others = list(dict.fromkeys((*others, *(text for text in more if text not in own))))
        n = min(settings.candidates - 1, len(others))
        group = []
        for response in exchange.responses:
            sampled = generator.choice(len(others), n, replace=False) if n else ()
            group.append(RankingExample(exchange, (response, *(others[int(j)] for j in sampled))))
        groups.append(group)
    if groups and not any(len(example.candidates) > 1 for group in groups for example in group):
        raise DataError("All contexts have the same responses, so there are no distractors to sample. Add contexts.")
    return groups


# --- scores -----------------------------------------------------------------------------------------------------------


LIKELIHOOD_METRICS = {
    "perplexity": PERPLEXITY,
    "nats_per_token": NATS_PER_TOKEN,
    "ngram_perplexity": PERPLEXITY,
}


def find_ranking_metric(name: str, settings: ConverseEvaluationConfig) -> Metric:
    """The ranking metric with this name: mrr, or recall@k for any k."""
    recall, _, k = name.partition("@")
    if recall == "recall" and k.isdecimal() and int(k):
        return recall_measure(int(k))
    if name != "mrr":
        raise DataError(f"Unknown ranking metric {name!r}: {did_you_mean(name, settings.ranking)}")
    return RECIPROCAL_RANK


@dataclass(frozen=True, eq=False)
class ConverseEvaluation(EvaluationResult):
    """The rank of each correct response among its candidates.

    Args:
        config: the config of the model, for the conditions of the evaluation.
        groups: the ranking examples of each context.
        ranks: the rank of the correct response of each example.
    """

    config: ConverseConfig
    groups: Groups
    ranks: list[list[RankCounts]]
    counts: str = ""

    def metrics(self) -> Mapping[str, Metric]:
        return self._ranking_metrics

    @cached_property
    def _ranking_metrics(self) -> dict[str, Metric]:
        """The ranking metrics, with the conditions of the ranking in their signatures."""
        settings = self.config.evaluation
        named = {name: find_ranking_metric(name, settings) for name in settings.ranking}
        conditions = "".join(f"|{name}:{value}" for name, value in self._conditions().items())
        return {name: replace(metric, name=metric.name + conditions) for name, metric in named.items()}

    def _conditions(self) -> dict[str, object]:
        settings = self.config.evaluation
        kind = distractor_kind([group[0].exchange for group in self.groups], settings)
        sizes = {len(example.candidates) for group in self.groups for example in group}
        conditions: dict[str, object] = {
            "candidates": f"{min(sizes)}-{max(sizes)}" if len(sizes) > 1 else min(sizes),
            "distractors": kind,
            "questions": sum(map(len, self.groups)),
        }
        return conditions | ({"seed": settings.seed} if kind == "random" else {})

    @cached_property
    def _references(self) -> list[list[Any]]:
        return [[(example.exchange.context, example.candidates) for example in group] for group in self.groups]

    def pairs(self, name: str) -> tuple[Sequence[Any], Sequence[Any]]:
        return self._references, self.ranks

    def paired(self, name: str) -> PairedPredictions:
        """The ranks for a paired test, by mrr or by recall@k for any k."""
        settings = self.config.evaluation
        conditions = {f"evaluation.{key}": getattr(settings, key) for key in ("candidates", "distractors", "seed")}
        conditions["data.window"] = self.config.data.window
        return PairedPredictions(find_ranking_metric(name, settings), self._references, self.ranks, conditions)

    def notes(self) -> list[str]:
        return [f"{len(self.groups):,} contexts, {sum(map(len, self.groups)):,} examples"]


@dataclass(frozen=True, eq=False)
class GenerativeEvaluation(ConverseEvaluation):
    """The ranks and the log-probabilities of correct responses, and the diversity of generated ones.

    Args:
        texts: the correct responses.
        log_probs: the log-probability of each token of each response.
        ngram_log_probs: the same under the n-gram model.
        unknown: the fraction of tokens of the responses that the model does not know.
        generated: the tokens of generated responses.
    """

    texts: list[str] = field(default_factory=list)
    log_probs: list[np.ndarray] = field(default_factory=list)
    ngram_log_probs: list[np.ndarray] = field(default_factory=list)
    unknown: float = 0.0
    generated: list[list[str]] = field(default_factory=list)

    def metrics(self) -> Mapping[str, Metric]:
        conditions = f"|tokens:{self.config.tokenizer.kind}|ends:counted"
        likelihoods = {name: replace(one, name=name + conditions) for name, one in LIKELIHOOD_METRICS.items()}
        return {**(self._ranking_metrics if self.groups else {}), **likelihoods}

    def pairs(self, name: str) -> tuple[Sequence[Any], Sequence[Any]]:
        if name not in LIKELIHOOD_METRICS:
            return super().pairs(name)
        rows = self.ngram_log_probs if name.startswith("ngram") else self.log_probs
        sizes = zip(self.texts, map(len, rows), strict=True)
        return list(sizes), [float(row.sum()) for row in rows]

    def paired(self, name: str) -> PairedPredictions:
        """The ranks or log-probabilities for a paired test."""
        if name not in LIKELIHOOD_METRICS:
            return super().paired(name)
        conditions = {"tokenizer.kind": self.config.tokenizer.kind}
        return PairedPredictions(self.metrics()[name], *self.pairs(name), conditions, self.unknown)

    def _values(self) -> dict[str, MetricValue]:
        values, n = super()._values(), len(self.generated)
        if n:
            for order in (1, 2):
                name = f"distinct_{order}"
                values[name] = MetricValue(distinct(self.generated, order), signature(name, n))
        return values

    def interval(self, name: str) -> Interval | None:
        return super().interval(name) if name in self.metrics() else None

    def notes(self) -> list[str]:
        return super().notes() if self.groups else []
