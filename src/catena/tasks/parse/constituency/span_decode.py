"""From scores of spans to trees: best, k best, samples, and bracket probabilities.

A tree may have several binary forms. Samples are exact. The k best are the trees with the best binary forms, sorted by
their exact probabilities.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from catena.data.vocabulary import Labels
from catena.errors import DataError
from catena.grammar.max_recall_parse import expected_brackets, stack_labels
from catena.numerics import NEG_INF
from catena.structure.tree import SpanTree
from catena.tasks.application import PredictOptions
from catena.tasks.parse.constituency.answers import Confidence, Parsed, ParsedTree
from catena.tasks.parse.constituency.config import SpanParserConfig
from catena.tasks.parse.constituency.constraints import BracketConstraint, check_given
from catena.tasks.parse.constituency.span_model import SpanScores
from catena.tasks.parse.constituency.span_ranked import best_trees
from catena.tasks.parse.constituency.span_trees import (
    BETWEEN,
    NO_PHRASE,
    allowed_labels,
    best_labels,
    gold_trees,
    label_ids,
    log_probabilities,
    over_labels,
)
from catena.tasks.parse.constituency.trees import LabeledSpan, phrases_to_tree

LEAST = 0.01
"""Brackets with a smaller probability are not reported."""

SpanWords = tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Names:
    """The names of label chains and of tags, and the label for trees without a bracket over all words."""

    chains: Labels
    tags: Labels
    top: str

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The single labels."""
        return tuple(sorted({label for chain in self.split for label in chain}))

    @cached_property
    def split(self) -> list[tuple[str, ...]]:
        """The labels of each chain; empty for "no phrase"."""
        return [(), *(tuple(name.split(BETWEEN)) for name in self.chains.names)]

    @cached_property
    def members(self) -> Float[np.ndarray, "k q"]:
        """The number of times each chain has each single label."""
        table = np.zeros((len(self.split), len(self.labels)))
        for k, chain in enumerate(self.split):
            for label in chain:
                table[k, self.labels.index(label)] += 1.0
        return table

    @cached_property
    def above(self) -> dict[tuple[int, int], int]:
        """The number of times one single label is directly above another in the chains of the treebank."""
        found: dict[tuple[int, int], int] = {}
        for chain, count in zip(self.split[1:], self.chains.counts, strict=True):
            numbers = [self.labels.index(label) for label in chain]
            for pair in pairwise(numbers):
                found[pair] = found.get(pair, 0) + count
        return found


class SpanDecoder:
    """Predictions for a batch of sentences, on the CPU.

    Args:
        settings: the config of the model.
        scores: the scores of the network.
        sentences: the words.
        names: the names of labels and tags.
        given: given brackets for each sentence; None for none.
    """

    def __init__(
        self,
        settings: SpanParserConfig,
        scores: SpanScores,
        sentences: Sequence[SpanWords],
        names: Names,
        given: Sequence[tuple[BracketConstraint, ...]] | None = None,
    ) -> None:
        self.settings, self.names, self.sentences = settings, names, sentences
        self.lengths = torch.tensor([len(words) for words in sentences])
        self.spans, self.tags = scores.spans.float().cpu(), scores.tags.float().cpu()
        if given is not None:
            self._constrain(given)

    def parsed(self, options: PredictOptions, generator: torch.Generator) -> list[Parsed]:
        """Predictions for each sentence, with the given options."""
        likely = options.samples == 0 and options.n_best == 1
        phrases = None
        if likely:
            phrases = list(self._expected() if self.settings.by_recall else self._best())
        probable = self._tag_probabilities if options.confidence else None
        found = []
        for row, words in enumerate(self.sentences):
            if phrases is not None:
                trees = [phrases[row]]
            elif options.samples:
                trees = self._sampled(row, options.samples, generator)
            else:
                trees = self._k_best(row, options.n_best)
            scored = options.scores or not likely
            answers = self._answers(row, words, trees, scored, ranked=options.samples == 0)
            confidence = self._confidence(row) if options.confidence else None
            tags = None if probable is None else probable[row]
            found.append(Parsed(words, tuple(answers), confidence, tags, scored=options.scores))
        return found

    # --- trees --------------------------------------------------------------------------------------------------------

    def _best(self) -> Iterator[list[LabeledSpan]]:
        labels = self.spans.argmax(-1)
        for row, spans in enumerate(best_labels(self.spans, self.lengths).argmax().tolist()):
            yield self._phrases((i, j, int(labels[row, i, j])) for i, j, _ in spans if i >= 0)

    def _expected(self) -> Iterator[list[LabeledSpan]]:
        names = self.names
        for row in range(len(self.sentences)):
            counts = self._label_counts(row)
            brackets = stack_labels(
                expected_brackets(counts, self.settings.price), lambda p, q: float(names.above.get((p, q), 0))
            )
            chains: dict[tuple[int, int], tuple[str, ...]] = {}
            for i, j, q in brackets:
                chains[i, j] = (*chains.get((i, j), ()), names.labels[q])
            yield [LabeledSpan(i, j, labels) for (i, j), labels in chains.items()]

    def _k_best(self, row: int, k: int) -> list[list[LabeledSpan]]:
        n = len(self.sentences[row])
        found: dict[tuple[LabeledSpan, ...], list[LabeledSpan]] = {}
        for spans in best_trees(self.spans[row, :n, :n].numpy(), 2 * k):  # a tree has at most two readings
            phrases = self._phrases(iter(spans))
            found.setdefault(tuple(sorted(self._readings(phrases, n)[-1])), phrases)
        return list(found.values())[:k]

    def _sampled(self, row: int, n: int, generator: torch.Generator) -> list[list[LabeledSpan]]:
        drawn = self._tree(row).sample(n, generator).tolist()
        return [self._phrases((i, j, q) for i, j, q in member if i >= 0) for member in drawn]

    def _phrases(self, spans: Iterator[tuple[int, int, int]]) -> list[LabeledSpan]:
        return [LabeledSpan(i, j + 1, self.names.split[q]) for i, j, q in spans if q != NO_PHRASE]

    def _tree(self, row: int) -> SpanTree:
        n = len(self.sentences[row])
        return SpanTree(self.spans[row, :n, :n])

    # --- answers ------------------------------------------------------------------------------------------------------

    def _answers(
        self, row: int, words: SpanWords, trees: Sequence[list[LabeledSpan]], scored: bool, ranked: bool
    ) -> list[ParsedTree]:
        best = self.tags[row, : len(words)].argmax(-1).tolist()
        tags = [self.names.tags.name(q) for q in best]
        known: dict[tuple[LabeledSpan, ...], ParsedTree] = {}
        answers = []
        for phrases in trees:
            key = tuple(sorted(phrases))
            if key not in known:
                tree = phrases_to_tree(words, tags, phrases, self.names.top)
                known[key] = ParsedTree(tree, self._log_probability(row, phrases) if scored else None)
            answers.append(known[key])
        if ranked:
            answers.sort(key=lambda answer: -(answer.log_probability or 0.0))
        return answers

    def _log_probability(self, row: int, phrases: Sequence[LabeledSpan]) -> float:
        """The log-probability of a tree without its tags; -inf if one of its label chains is unknown."""
        n = len(self.sentences[row])
        known = [
            spans for one in self._readings(phrases, n) if (spans := label_ids(one, self.names.chains)) is not None
        ]
        if not known:
            return NEG_INF
        scores = self.spans[row, :n, :n].double().expand(len(known), -1, -1, -1)
        return float(log_probabilities(scores, gold_trees(known, [n] * len(known))).logsumexp(0))

    def _readings(self, phrases: Sequence[LabeledSpan], n: int) -> list[list[LabeledSpan]]:
        """The sets of phrases that are written as the same tree.

        If the top is the only label over all words, these are the set without it, to which it is added, and the set
        with it; otherwise only the given set.
        """
        top = LabeledSpan(0, n, (self.names.top,))
        above = [phrase for phrase in phrases if (phrase.first, phrase.end) == (0, n)]
        below = [phrase for phrase in phrases if phrase not in above]
        return [below, [*below, top]] if above in ([], [top]) else [list(phrases)]

    def _label_counts(self, row: int) -> Float[np.ndarray, "t u q"]:
        """The expected count of each single label over each span."""
        n = len(self.sentences[row])
        counts = np.zeros((n, n + 1, len(self.names.labels)))
        labels = self.spans[row, :n, :n].softmax(-1).nan_to_num()  # a forbidden span has no label
        chains = (self._span_probabilities[row, :n, :n, None] * labels).numpy()
        upper = np.triu(np.ones((n, n), bool))
        counts[:, 1:][upper] = chains[upper] @ self.names.members
        return counts

    @cached_property
    def _span_probabilities(self) -> Float[Tensor, "b t t"]:
        return over_labels(self.spans, self.lengths).marginals()[..., 0]

    @cached_property
    def _tag_probabilities(self) -> list[tuple[dict[str, float], ...]]:
        table = self.tags.softmax(-1).tolist()
        names = self.names.tags.names
        return [
            tuple({name: p for name, p in zip(names, row, strict=True) if p >= LEAST} for row in rows[: len(words)])
            for rows, words in zip(table, self.sentences, strict=True)
        ]

    def _confidence(self, row: int) -> Confidence:
        counts = self._label_counts(row)
        found = np.argwhere(counts >= LEAST)
        return {(self.names.labels[q], int(i), int(j)): min(1.0, float(counts[i, j, q])) for i, j, q in found}

    # --- given brackets -----------------------------------------------------------------------------------------------

    def _constrain(self, given: Sequence[tuple[BracketConstraint, ...]]) -> None:
        for row, some in enumerate(given):
            n = len(self.sentences[row])
            check_given(some, n)
            if not some:
                continue
            allowed = allowed_labels(some, n, self.spans.shape[1], self.names.chains)
            self.spans[row] = torch.where(allowed, self.spans[row], NEG_INF)
            for first, end, label, wanted in some:
                if wanted and label is not None and end == first + 1:
                    if label not in self.names.tags:
                        raise DataError(
                            f"the tag {label!r} given for word {end} does not occur in training. Use another tag."
                        )
                    only = torch.full_like(self.tags[row, first], NEG_INF)
                    only[self.names.tags.id(label)] = 0.0
                    self.tags[row, first] = only
            if (
                float(over_labels(self.spans[row : row + 1, :n, :n], self.lengths[row : row + 1]).log_partition())
                == NEG_INF
            ):
                wanted_spans = ", ".join(f"{one.first + 1}-{one.end}" for one in some)
                raise DataError(f"No tree has all the given brackets ({wanted_spans}). Remove some of them.")
