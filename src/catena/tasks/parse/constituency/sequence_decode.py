"""Decoding of a network that writes trees: best, n best, samples, and bracket probabilities from samples.

The search writes only trees over the words (:mod:`catena.search.brackets`). Log-probabilities come from the network,
which also gives some probability to sequences that are not trees.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch

from catena.data.batches import BatchPlan, pad
from catena.data.config import BatchConfig
from catena.data.examples import Tree
from catena.grammar.max_recall_parse import expected_brackets, stack_labels
from catena.search.brackets import Bracketed
from catena.search.build import search
from catena.search.combine import Ensemble
from catena.search.config import SampleConfig
from catena.search.hypothesis import Hypotheses
from catena.seq2seq.base import EncoderDecoder, Source
from catena.tasks.application import DEFAULT_PREDICT_OPTIONS, PredictOptions
from catena.tasks.parse.constituency.answers import Confidence, Parsed, ParsedTree
from catena.tasks.parse.constituency.config import SequenceParserConfig
from catena.tasks.parse.constituency.linear import TreeSymbols
from catena.tasks.parse.constituency.sequence_words import SourceWords
from catena.tasks.parse.constituency.trees import LabeledSpan, phrases_to_tree, tree_tags, tree_to_phrases

_Words = tuple[str, ...]
_MORE_BRACKETS = 10
"""Number of brackets that any tree may have, in addition to those for each word."""
_WORDS_AT_ONCE = 4000
"""Number of words, including padding, whose trees are searched together."""


class SequenceParser:
    """A network with its words and symbols, ready to parse.

    Args:
        others: further networks over the same words and symbols, whose probabilities are averaged with the first at
            every step.
    """

    def __init__(
        self,
        network: EncoderDecoder,
        settings: SequenceParserConfig,
        words: SourceWords,
        symbols: TreeSymbols,
        others: Sequence[EncoderDecoder] = (),
    ) -> None:
        self.network, self.settings, self.words, self.symbols = network, settings, words, symbols
        self.others = tuple(others)

    def writes_like(self, other: SequenceParser) -> bool:
        """Whether another parser has the same words and symbols."""
        mine, theirs = self.symbols, other.symbols
        same_words = self.words.vocabulary.symbols == other.words.vocabulary.symbols
        return same_words and (mine.labels.names, mine.tags.names) == (theirs.labels.names, theirs.tags.names)

    def parse(self, sentences: Sequence[_Words], options: PredictOptions = DEFAULT_PREDICT_OPTIONS) -> list[Parsed]:
        """Predictions for nonempty sentences; those of similar length are parsed together."""
        generator = torch.Generator().manual_seed(options.seed)
        found: dict[int, Parsed] = {}
        self.network.eval()
        lengths = np.array([len(words) for words in sentences], np.int64)
        with torch.no_grad():
            for rows in BatchPlan.by_length(lengths, BatchConfig(batch_size=_WORDS_AT_ONCE, batch_by="tokens")):
                some = [sentences[int(r)] for r in rows]
                found.update(zip(rows.tolist(), self._parsed(some, options, generator), strict=True))
        return [found[i] for i in range(len(sentences))]

    def _parsed(self, sentences: Sequence[_Words], options: PredictOptions, generator: torch.Generator) -> list[Parsed]:
        likely = options.samples == 0 and options.n_best == 1
        recall = likely and self.settings.by_recall and not options.scores
        drawn: Sequence[list[Tree]] = [[] for _ in sentences]
        if recall or options.confidence:
            drawn = self._trees(sentences, self._search(sentences, generator, samples=self.settings.draws))
        if recall:
            answers = [
                [ParsedTree(max_expected_recall(words, trees, self.settings.price))]
                for words, trees in zip(sentences, drawn, strict=True)
            ]
        else:
            listed = self._search(sentences, generator, options.n_best, options.samples)
            answers = [
                [ParsedTree(tree, one.log_prob) for tree, one in zip(trees, row, strict=True)]
                for trees, row in zip(self._trees(sentences, listed), listed, strict=True)
            ]
        return [
            Parsed(
                words,
                tuple(some),
                bracket_shares(trees) if options.confidence else None,
                tag_shares(trees) if options.confidence else None,
                scored=options.scores,
            )
            for words, some, trees in zip(sentences, answers, drawn, strict=True)
        ]

    def _search(
        self, sentences: Sequence[_Words], generator: torch.Generator, n_best: int = 1, samples: int = 0
    ) -> Hypotheses:
        """The best or the sampled sequences of each sentence."""
        device, own = self.network.device, self.settings
        ids, lengths = pad([self.words.ids(words) for words in sentences])
        source = Source(ids, lengths).to(device)
        leaves = torch.tensor([len(words) for words in sentences])
        most = [math.ceil(own.brackets * len(words)) + _MORE_BRACKETS for words in sentences]
        limits = leaves + 1 + 2 * torch.tensor(most)
        steppers = [network.stepper(source) for network in (self.network, *self.others)]
        free = steppers[0] if len(steppers) == 1 else Ensemble(steppers)
        stepper = Bracketed(free, self.symbols.ids, leaves.to(device), limits.to(device), own.most_opened)
        longest = int(limits.max())
        constraint = (
            SampleConfig(n=samples, max_length=longest)
            if samples
            else own.search.model_copy(
                update={"n_best": n_best, "width": max(n_best, own.search.width), "max_length": longest}
            )
        )
        return search(constraint, stepper, stepper.start(len(sentences)), generator)

    def _trees(self, sentences: Sequence[_Words], listed: Hypotheses) -> list[list[Tree]]:
        return [
            [self.symbols.read(one.ids, words) for one in row] for words, row in zip(sentences, listed, strict=True)
        ]


# --- statistics of trees ----------------------------------------------------------------------------------------------


def bracket_shares(trees: Sequence[Tree]) -> Confidence:
    """The fraction of trees over the same words that have each bracket."""
    seen = Counter(
        bracket
        for tree in trees
        for bracket in {(label, first, end) for first, end, labels in tree_to_phrases(tree) for label in labels}
    )
    return {bracket: n / len(trees) for bracket, n in seen.items()}


def tag_shares(trees: Sequence[Tree]) -> tuple[dict[str, float], ...]:
    """The fraction of trees in which each word has each tag."""
    columns = zip(*(tree_tags(tree) for tree in trees), strict=True)
    return tuple({tag: n / len(trees) for tag, n in Counter(column).items()} for column in columns)


def max_expected_recall(words: _Words, trees: Sequence[Tree], price: float) -> Tree:
    """The tree with the largest expected number of correct brackets under sampled trees (Goodman 1996)."""
    tops = Counter(tree.label for tree in trees)
    tags = [max(sorted(shares), key=shares.__getitem__) for shares in tag_shares(trees)]
    labels = sorted({label for tree in trees for phrase in tree_to_phrases(tree) for label in phrase.labels})
    number = {label: q for q, label in enumerate(labels)}
    counts = np.zeros((len(words), len(words) + 1, len(labels)))
    above: Counter[tuple[int, int]] = Counter()
    for tree in trees:
        for first, end, chain in tree_to_phrases(tree):
            for label in chain:
                counts[first, end, number[label]] += 1 / len(trees)
            above.update((number[p], number[q]) for p, q in pairwise(chain))
    brackets = stack_labels(expected_brackets(counts, price), lambda p, q: float(above[p, q]))
    phrases: dict[tuple[int, int], tuple[str, ...]] = {}
    for i, j, q in brackets:
        phrases[i, j] = (*phrases.get((i, j), ()), labels[q])
    made = [LabeledSpan(i, j, chain) for (i, j), chain in phrases.items()]
    return phrases_to_tree(words, tags, made, max(sorted(tops), key=tops.__getitem__))
