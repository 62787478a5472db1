"""From scores of spans to trees: best, k best, samples, and bracket probabilities.

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
from jaxtyping import Float
from torch import Tensor

from catena.data.vocabulary import Labels
from catena.errors import DataError
from catena.numerics import NEG_INF
from catena.structure.tree import SpanTree
from catena.tasks.options import RankedOptions
from catena.tasks.parse.constituency.config import SpanParserConfig
from catena.tasks.parse.constituency.constraints import BracketConstraint
from catena.tasks.parse.constituency.span.model import SpanScores
from catena.tasks.parse.constituency.span.ranked import best_trees
from catena.tasks.parse.constituency.span.trees import (
    BETWEEN,
    NO_PHRASE,
    allowed_labels,
    best_labels,
    gold_trees,
    label_ids,
    log_probabilities,
    over_labels,
)
from catena.tasks.parse.constituency.trees import (
    LEAST,
    LabeledSpan,
    phrases_to_tree,
    probable_brackets,
    recall_phrases,
)
from catena.tasks.parse.data import TreeExample
from catena.tasks.parse.predict import ConstituencyPrediction, ParsedTree

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
