"""Decoding of span scores: the best trees, the k best by their best binary forms, and the labels of spans.

The k best trees over scores of spans, ranked by their best binary forms.

The binary forms of a tree differ only in spans without a phrase, and a flat tree of many words has too many of them to
list. So every span keeps its k best *sets of phrases*, each with its best form: equal sets are merged when two parts
are joined. A set is identified by the sum of random keys of its phrases.

Time O(n³ k log k) for n words, with one numpy call per span.

From scores of spans to trees: best, k best, samples, and bracket probabilities.

A tree may have several binary forms. Samples are exact. The k best are the trees with the best binary forms, sorted by
their exact probabilities.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from catena.data.vocabulary import Labels
from catena.errors import DataError
from catena.numerics import NEG_INF
from catena.structure.tree import SpanTree
from catena.tasks.options import RankedOptions
from catena.tasks.parse.constituency.config import SpanParserConfig
from catena.tasks.parse.constituency.span.model import (
    BETWEEN,
    NO_PHRASE,
    SpanScores,
    allowed_labels,
    best_labels,
    gold_trees,
    label_ids,
    log_probabilities,
    over_labels,
)
from catena.tasks.parse.constituency.trees import (
    LEAST,
    BracketConstraint,
    LabeledSpan,
    phrases_to_tree,
    probable_brackets,
    recall_phrases,
)
from catena.tasks.parse.data import TreeExample
from catena.tasks.parse.predict import ConstituencyPrediction, ParsedTree

_Spans = list[tuple[int, int, int]]
"""(first, last, label) of the phrases of a tree."""


def best_trees(scores: Float[np.ndarray, "n n q"], k: int) -> list[_Spans]:
    """The ``k`` trees whose best binary forms score highest, best first; fewer if there are not as many.

    ``scores[i, j, q]`` is the score of label ``q`` over the words ``i`` to ``j``, where label 0 means no phrase.
    """
    chart = _Chart(np.asarray(scores, np.float64), k)
    n = len(scores)
    for width in range(n):
        for first in range(n - width):
            chart.fill(first, first + width)
    return [list(chart.phrases(0, n - 1, rank)) for rank in range(k) if chart.scores[0, n - 1, rank] > NEG_INF]


class _Chart:
    """For each span, its k best sets of phrases: their scores, their keys, and their backpointers."""

    def __init__(self, labels: Float[np.ndarray, "n n q"], k: int) -> None:
        n = len(labels)
        self.labels, self.k = labels, k
        self.marks = np.random.default_rng(0).integers(1, 1 << 63, labels.shape, dtype=np.uint64)
        self.marks[..., NO_PHRASE] = 0
        self.scores = np.full((n, n, k), NEG_INF)
        self.keys = np.zeros((n, n, k), np.uint64)
        self.ways = np.full((n, n, k, 4), -1, np.int32)
        """The label, the last word of the left part, and the ranks of both parts; -1 for the parts of a word."""
        # In two sorted lists, the pair of ranks (a, b) has (a + 1)(b + 1) - 1 pairs before it, all of other sets.
        fitting = k // (np.arange(k) + 1)
        self.first = np.repeat(np.arange(k), fitting)
        self.second = np.concatenate([np.arange(count) for count in fitting])

    def fill(self, i: int, j: int) -> None:
        """Choose the best sets of the span from ``i`` to ``j``, whose parts are filled already."""
        word = np.zeros(1), np.zeros(1, np.uint64), np.full((1, 3), -1)
        scores, keys, parts = self._joined(i, j) if j > i else word
        labels = np.argsort(-self.labels[i, j], kind="stable")
        fits = (self.first < len(scores)) & (self.second < len(labels))
        inner, label = self.first[fits], labels[self.second[fits]]
        totals = scores[inner] + self.labels[i, j, label]
        best = np.argsort(-totals, kind="stable")[: self.k]
        m = len(best)
        self.scores[i, j, :m] = totals[best]
        self.keys[i, j, :m] = keys[inner[best]] + self.marks[i, j, label[best]]
        self.ways[i, j, :m] = np.concatenate((label[best, None], parts[inner[best]]), axis=1)

    def _joined(self, i: int, j: int) -> tuple[np.ndarray, np.ndarray, Int[np.ndarray, "m 3"]]:
        """The best sets of two adjacent parts, without duplicates: scores, keys, and the parts."""
        left, right = slice(i, j), slice(i + 1, j + 1)
        totals = (self.scores[i, left][:, self.first] + self.scores[right, j][:, self.second]).ravel()
        keys = (self.keys[i, left][:, self.first] + self.keys[right, j][:, self.second]).ravel()
        order = np.argsort(-totals, kind="stable")
        once = np.sort(np.unique(keys[order], return_index=True)[1])[: self.k]
        best = order[once]
        split, pair = np.divmod(best, len(self.first))
        return totals[best], keys[best], np.stack((i + split, self.first[pair], self.second[pair]), axis=1)

    def phrases(self, i: int, j: int, rank: int) -> Iterator[tuple[int, int, int]]:
        """The phrases of a set."""
        waiting = [(i, j, rank)]
        while waiting:
            first, last, rank = waiting.pop()
            label, split, left, right = self.ways[first, last, rank].tolist()
            if label != NO_PHRASE:
                yield first, last, label
            if split >= 0:
                waiting += [(split + 1, last, right), (first, split, left)]


# --- decoding ---------------------------------------------------------------------------------------------------------


CHAINS, TAGS, TOP = "phrases.json", "tags.json", "top.txt"


@dataclass(frozen=True, eq=False)
class SpanLabels:
    """The chains of labels and the tags, and the label for trees without a bracket over all words."""

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
    def label_counts(self) -> Float[np.ndarray, "k q"]:
        """The number of times each chain has each single label."""
        return np.array([[chain.count(label) for label in self.labels] for chain in self.split], float)

    @cached_property
    def above(self) -> Counter[tuple[int, int]]:
        """The number of times one single label is directly above another in the chains of the treebank."""
        pairs: Counter[tuple[int, int]] = Counter()
        for chain, count in zip(self.split[1:], self.chains.counts, strict=True):
            for p, q in pairwise(map(self.labels.index, chain)):
                pairs[p, q] += count
        return pairs

    def save(self, folder: Path) -> None:
        self.chains.save(folder / CHAINS)
        self.tags.save(folder / TAGS)
        (folder / TOP).write_text(self.top + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> SpanLabels:
        top = (folder / TOP).read_text(encoding="utf-8").strip()
        return cls(Labels.load(folder / CHAINS), Labels.load(folder / TAGS), top)


class SpanDecoder:
    """Predictions for a batch of sentences, on the CPU.

    Args:
        settings: the config of the model.
        scores: the scores of the network.
        examples: the sentences, possibly with given brackets.
        names: the names of labels and tags.
    """

    def __init__(
        self, settings: SpanParserConfig, scores: SpanScores, examples: Sequence[TreeExample], names: SpanLabels
    ) -> None:
        self.settings, self.names, self.examples = settings, names, examples
        self.lengths = torch.tensor([len(example.words) for example in examples])
        self.spans, self.tags = scores.spans.float().cpu(), scores.tags.float().cpu()
        for row, example in enumerate(examples):
            if example.constraint:
                self._constrain(row, example.constraint)

    def predictions(self, options: RankedOptions, generator: torch.Generator) -> list[ConstituencyPrediction]:
        """Predictions for each sentence, with the given options."""
        made = []
        for row, (example, phrases) in enumerate(zip(self.examples, self._trees(options, generator), strict=True)):
            prediction = ConstituencyPrediction.from_trees(example, self._parsed(row, phrases, options), options)
            if options.confidence:
                brackets = probable_brackets(self._label_counts(row), self.names.labels)
                prediction = replace(prediction, brackets=brackets, tags=self._tag_probabilities[row])
            made.append(prediction)
        return made

    # --- trees --------------------------------------------------------------------------------------------------------

    def _trees(self, options: RankedOptions, generator: torch.Generator) -> Iterator[list[list[LabeledSpan]]]:
        """The phrases of the trees of each sentence."""
        rows = range(len(self.examples))
        if options.samples:
            return (self._sampled(row, options.samples, generator) for row in rows)
        if options.n_best > 1:
            return (self._k_best(row, options.n_best) for row in rows)
        return ([phrases] for phrases in (self._expected() if self.settings.by_recall else self._best()))

    def _best(self) -> Iterator[list[LabeledSpan]]:
        labels = self.spans.argmax(-1)
        for row, spans in enumerate(best_labels(self.spans, self.lengths).argmax().tolist()):
            yield self._phrases((i, j, int(labels[row, i, j])) for i, j, _ in spans if i >= 0)

    def _expected(self) -> Iterator[list[LabeledSpan]]:
        for row in range(len(self.examples)):
            yield recall_phrases(self._label_counts(row), self.names.labels, self.settings.price, self.names.above)

    def _k_best(self, row: int, k: int) -> list[list[LabeledSpan]]:
        n = int(self.lengths[row])
        found: dict[tuple[LabeledSpan, ...], list[LabeledSpan]] = {}
        for spans in best_trees(self.spans[row, :n, :n].numpy(), 2 * k):  # a tree has at most two readings
            phrases = self._phrases(iter(spans))
            found.setdefault(tuple(sorted(self._readings(phrases, n)[-1])), phrases)
        return list(found.values())[:k]

    def _sampled(self, row: int, n: int, generator: torch.Generator) -> list[list[LabeledSpan]]:
        samples = self._tree(row).sample(n, generator).tolist()
        return [self._phrases((i, j, q) for i, j, q in spans if i >= 0) for spans in samples]

    def _phrases(self, spans: Iterator[tuple[int, int, int]]) -> list[LabeledSpan]:
        return [LabeledSpan(i, j + 1, self.names.split[q]) for i, j, q in spans if q != NO_PHRASE]

    def _tree(self, row: int) -> SpanTree:
        n = int(self.lengths[row])
        return SpanTree(self.spans[row, :n, :n])

    # --- probabilities ------------------------------------------------------------------------------------------------

    def _parsed(self, row: int, trees: Sequence[list[LabeledSpan]], options: RankedOptions) -> list[ParsedTree]:
        """The trees of phrases with their log-probabilities if requested, sorted unless they are samples."""
        words = self.examples[row].words
        tags = [self.names.tags.name(q) for q in self.tags[row, : len(words)].argmax(-1).tolist()]
        known: dict[tuple[LabeledSpan, ...], ParsedTree] = {}
        made = []
        for phrases in trees:
            key = tuple(sorted(phrases))
            if key not in known:
                tree = phrases_to_tree(words, tags, phrases, self.names.top)
                scored = options.scores or options.several
                known[key] = ParsedTree(tree, self._log_probability(row, phrases) if scored else None)
            made.append(known[key])
        return made if options.samples else sorted(made, key=lambda one: -(one.log_prob or 0.0))

    def _log_probability(self, row: int, phrases: Sequence[LabeledSpan]) -> float:
        """The log-probability of a tree without its tags; -inf if one of its label chains is unknown."""
        n = int(self.lengths[row])
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
        n = int(self.lengths[row])
        counts = np.zeros((n, n + 1, len(self.names.labels)))
        labels = self.spans[row, :n, :n].softmax(-1).nan_to_num()  # a forbidden span has no label
        chains = (self._span_probabilities[row, :n, :n, None] * labels).numpy()
        upper = np.triu(np.ones((n, n), bool))
        counts[:, 1:][upper] = chains[upper] @ self.names.label_counts
        return counts

    @cached_property
    def _span_probabilities(self) -> Float[Tensor, "b t t"]:
        return over_labels(self.spans, self.lengths).marginals()[..., 0]

    @cached_property
    def _tag_probabilities(self) -> list[tuple[dict[str, float], ...]]:
        table = self.tags.softmax(-1).tolist()
        names = self.names.tags.names
        return [
            tuple({name: p for name, p in zip(names, row, strict=True) if p >= LEAST} for row in rows[:length])
            for rows, length in zip(table, self.lengths.tolist(), strict=True)
        ]

    # --- given brackets -----------------------------------------------------------------------------------------------

    def _constrain(self, row: int, given: tuple[BracketConstraint, ...]) -> None:
        n = int(self.lengths[row])
        allowed = allowed_labels(given, n, self.spans.shape[1], self.names.chains)
        self.spans[row] = torch.where(allowed, self.spans[row], NEG_INF)
        for first, end, label, wanted in given:
            if wanted and label is not None and end == first + 1:
                if label not in self.names.tags:
                    raise DataError(
                        f"the tag {label!r} given for word {end} does not occur in training. Use another tag."
                    )
                self.tags[row, first] = NEG_INF
                self.tags[row, first, self.names.tags.id(label)] = 0.0
        if over_labels(self.spans[row, None, :n, :n], self.lengths[row, None]).log_partition().item() == NEG_INF:
            spans = ", ".join(f"{one.first + 1}-{one.end}" for one in given)
            raise DataError(f"No tree has all the given brackets ({spans}). Remove some of them.")
