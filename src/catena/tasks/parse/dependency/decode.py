r"""From scores of arcs to trees: best, k best, samples, the probability of each arc, under given arcs.

A labeled tree has the probability

.. math::  p(y, q) = \frac{1}{Z} \prod_m \exp(a_{h_m m})\, w_{h_m m}(q_m)

where :math:`w_{hm}` are the probabilities of relations given the arc or, for a model trained with a margin, the
exponentials of their scores. The best tree is the best pair of arcs and relations.

The scores of all relations on all arcs are never in memory together, except for k best: their best value and their sum,
which a tree needs, are computed for some heads at a time. So memory grows with the square of the sentence length, not
with the number of relations.

Constraints on parses, given as partly filled CoNLL-U.

A HEAD or DEPREL other than ``_`` is fixed. In MISC, ``NotHead=3,4`` forbids heads (0 is the root) and
``NotDeprel=obj,iobj`` forbids relations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from catena.data.examples import ConlluRow, ConlluSentence
from catena.data.vocabulary import Labels
from catena.errors import DataError
from catena.numerics import NEG_INF
from catena.structure.dependency import DependencyDistribution
from catena.tasks.options import RankedOptions
from catena.tasks.parse.data import DependencyExample
from catena.tasks.parse.dependency.config import BiaffineParserConfig
from catena.tasks.parse.dependency.model import KINDS, ArcScores, word_location

AT_ONCE = 2**24
"""Maximum number of relation scores in memory."""
MOST_SCORES = 2**28
"""Maximum number of relation scores of one sentence for k best."""
LONGEST_PROJECTIVE_SUM = 1000
"""Maximum number of words of a sentence for sums over projective trees, whose time is cubic."""


class Parse(NamedTuple):
    """A dependency tree: for each word the number of its head, 0 for the root, and its relation.

    ``log_prob`` is the log-probability of the labeled tree in nats; ``confidence`` is the probability of each word's
    arc and relation together, summed over all trees that have them. They are None unless the options request them.
    """

    heads: tuple[int, ...]
    relations: tuple[str, ...]
    log_prob: float | None = None
    confidence: tuple[float, ...] | None = None


@dataclass(frozen=True)
class AllowedArcs:
    """The result of a constraint: ``arcs[b, h, m]``, and ``relations[b, m, q]`` for word ``m`` with any head."""

    arcs: Bool[Tensor, "b n n"]
    relations: Bool[Tensor, "b n k"]


@dataclass(frozen=True)
class RelationSummary:
    """For every arc, on the CPU: the best relation and its log-weight, and the log-sum of all relations."""

    best: Float[Tensor, "b n n"]
    which: Int[Tensor, "b n n"]
    total: Float[Tensor, "b n n"]


class DependencyDecoder:
    """Decodes one batch of scored sentences.

    Args:
        settings: the config of the model.
        scores: the scores of the batch.
        names: the relations.
        allowed: the arcs and relations that a constraint allows; None for all.
    """

    def __init__(
        self, settings: BiaffineParserConfig, scores: ArcScores, names: Labels, allowed: AllowedArcs | None = None
    ) -> None:
        self.settings, self.scores, self.names, self.allowed = settings, scores, names, allowed
        self.lengths = scores.lengths.cpu()
        self.arcs = scores.arcs.float().cpu()
        if allowed is not None:
            self.arcs = torch.where(allowed.arcs, self.arcs, NEG_INF)
        self.summary = self._summarize()

    # --- predictions --------------------------------------------------------------------------------------------------

    def best(self) -> list[tuple[list[int], list[int]]]:
        """Heads and relation ids of the best tree of each sentence; heads are -1 if there is none."""
        heads, relations = self._best()
        rows = zip(heads.tolist(), relations.tolist(), self.lengths.tolist(), strict=True)
        return [(h[:n], q[:n]) for h, q, n in rows]

    def parses(self, options: RankedOptions, generator: torch.Generator | None = None) -> list[list[Parse]]:
        """Parses of each sentence, with the given options; empty if a constraint allows no tree."""
        if not (options.several or options.confidence or options.scores):
            return [[self._parse(h, q)] if -1 not in h else [] for h, q in self.best()]
        self._check_length()
        summed = self._tree(self.arcs + self.summary.total)
        log_z = summed.log_partition().double()
        marginals = summed.arc_marginals() if options.confidence else None
        if options.samples:
            heads, relations = self._sampled(summed, options.samples, generator)
        elif options.n_best > 1:
            heads, relations = self._top(options.n_best)
        else:
            heads, relations = (x[None] for x in self._best())
        ranked = [self._measured(*one, log_z, marginals) for one in zip(heads, relations, strict=True)]
        return [[parse for parse in parses if parse is not None] for parses in zip(*ranked, strict=True)]

    def _best(self) -> tuple[Int[Tensor, "b t"], Int[Tensor, "b t"]]:
        heads = self._tree(self.arcs + self.summary.best).argmax()
        return heads, self._at(self.summary.which, heads).long()

    def _sampled(
        self, summed: DependencyDistribution, n: int, generator: torch.Generator | None
    ) -> tuple[Int[Tensor, "s b t"], Int[Tensor, "s b t"]]:
        heads = summed.sample(n, generator)
        relations = []
        for one in heads:
            probabilities = self._log_weights_at(one).double().softmax(-1).nan_to_num(1.0)
            relations.append(torch.multinomial(probabilities.flatten(0, 1), 1, generator=generator).reshape(one.shape))
        return heads, torch.stack(relations)

    def _top(self, k: int) -> tuple[Int[Tensor, "k b t"], Int[Tensor, "k b t"]]:
        """The k best labeled trees of each sentence; only this needs every relation of every arc."""
        heads = torch.full((k, len(self.lengths), self.arcs.shape[-1] - 1), -1)
        relations = torch.zeros_like(heads)
        for row, length in enumerate(self.lengths.tolist()):
            n = length + 1
            if length == 0:
                continue
            if n * n * len(self.names) > MOST_SCORES:
                raise DataError(
                    f"the k best parses of a sentence of {length:,} words need {n * n * len(self.names):,} scores of "
                    f"relations, more than {MOST_SCORES:,}. Request only the best parse, or split the sentence."
                )
            mask = None if self.allowed is None else self.allowed.relations[row, None, None, :n]
            labels = self._log_weights(self._take(slice(row, row + 1), n).relations().float().cpu(), mask)
            tree = KINDS[self.settings.trees](
                self.arcs[row, None, :n, :n], labels=labels, single_root=self.settings.single_root
            )
            heads[:, row, :length], relations[:, row, :length] = tree.topk(k).structures[:, 0].unbind(-1)
        return heads, relations

    # --- parts --------------------------------------------------------------------------------------------------------

    @property
    def _normalized(self) -> bool:
        return self.settings.loss != "margin"

    def _tree(self, arcs: Tensor) -> DependencyDistribution:
        return KINDS[self.settings.trees](arcs, lengths=self.lengths, single_root=self.settings.single_root)

    def _summarize(self) -> RelationSummary:
        scores = self.scores
        if self.allowed is None:
            found = scores.biaffine.summarize(scores.heads, scores.dependents, scores.lengths)
            if found is not None:
                best, which, total = found
                return (
                    RelationSummary(best - total, which, self._no_total(total))
                    if self._normalized
                    else (RelationSummary(best, which, total))
                )
        b, n, _ = self.arcs.shape
        step = max(1, AT_ONCE // (max(1, b) * n * len(self.names)))
        mask = None if self.allowed is None else self.allowed.relations[:, None]
        parts = []
        for first in range(0, n, step):
            weights = self._log_weights(scores.relations_from(first, min(n, first + step)).float(), mask)
            top = weights.max(-1)
            none = self._normalized and mask is None
            total = self._no_total(top.values) if none else weights.logsumexp(-1)
            parts.append((top.values.cpu(), top.indices.to(torch.int32).cpu(), total.cpu()))
        return RelationSummary(*(torch.cat(part, 1) for part in zip(*parts, strict=True)))

    def _no_total(self, like: Tensor) -> Tensor:
        """The log-sum of probabilities."""
        return torch.zeros(()).expand(like.shape)

    def _log_weights(self, relations: Tensor, mask: Tensor | None) -> Tensor:
        """The log-weights of relations from their scores, with a mask of those that a constraint allows."""
        weights = relations.log_softmax(-1) if self._normalized else relations
        return weights if mask is None else torch.where(mask.to(weights.device), weights, NEG_INF)

    def _log_weights_at(self, heads: Int[Tensor, "b t"]) -> Float[Tensor, "b t k"]:
        """The log-weights of the relations of each word to its head."""
        relations = self.scores.relations_at(heads.to(self.scores.arcs.device)).float().cpu()
        return self._log_weights(relations, None if self.allowed is None else self.allowed.relations[:, 1:])

    def _measured(
        self,
        heads: Int[Tensor, "b t"],
        relations: Int[Tensor, "b t"],
        log_z: Float[Tensor, "b"],
        marginals: Float[Tensor, "b n n"] | None,
    ) -> list[Parse | None]:
        """A tree of each sentence with its log-probability and, with marginals, its confidence; None without a tree."""
        weights = self._log_weights_at(heads).gather(-1, relations.clamp_min(0)[..., None])[..., 0].double()
        scores = self._at(self.arcs, heads).double() + weights
        given_arc = (weights - self._at(self.summary.total, heads)).exp()
        sure = None if marginals is None else (self._at(marginals, heads).double() * given_arc).clamp(0, 1)
        found: list[Parse | None] = []
        for row, n in enumerate(self.lengths.tolist()):
            own = heads[row, :n].tolist()
            if -1 in own:
                found.append(None)
                continue
            log_prob = min(0.0, float(scores[row, :n].sum() - log_z[row]))
            confidence = None if sure is None else tuple(sure[row, :n].tolist())
            found.append(self._parse(own, relations[row, :n].tolist(), log_prob, confidence))
        return found

    def _take(self, rows: slice, n: int | None = None) -> ArcScores:
        """The scores of some sentences, and of the first ``n`` nodes."""
        s = self.scores
        return ArcScores(s.arcs[rows, :n, :n], s.lengths[rows], s.heads[rows, :n], s.dependents[rows, :n], s.biaffine)

    def _at(self, table: Tensor, heads: Tensor) -> Tensor:
        """``table[b, heads[b, m], m]`` for every word; arbitrary if a head is -1."""
        return table[:, :, 1:].gather(1, heads.clamp_min(0)[:, None])[:, 0]

    def _parse(
        self,
        heads: Sequence[int],
        relations: Sequence[int],
        log_prob: float | None = None,
        confidence: tuple[float, ...] | None = None,
    ) -> Parse:
        return Parse(tuple(heads), tuple(map(self.names.names.__getitem__, relations)), log_prob, confidence)

    def _check_length(self) -> None:
        longest = int(self.lengths.max()) if len(self.lengths) else 0
        if self.settings.trees == "projective" and longest > LONGEST_PROJECTIVE_SUM:
            raise DataError(
                f"probabilities over projective trees are limited to sentences of {LONGEST_PROJECTIVE_SUM:,} words, "
                f"since time is cubic, but a sentence has {longest:,}. Request only the best parse, or split the "
                f"sentence."
            )


# --- constraints ------------------------------------------------------------------------------------------------------


NOT_HEAD, NOT_DEPREL = "NotHead", "NotDeprel"


def allowed_arcs(examples: Sequence[DependencyExample], names: Labels) -> AllowedArcs:
    """The arcs and relations that the constraints of a batch of sentences allow."""
    n = 1 + max(len(example.words) for example in examples)
    arcs = torch.ones(len(examples), n, n, dtype=torch.bool)
    relations = torch.ones(len(examples), n, len(names), dtype=torch.bool)
    for row, example in enumerate(examples):
        constraint: ConlluSentence = example.constraint
        _check_words(example.words, constraint)
        for number, word in enumerate(constraint.words, start=1):
            _apply_heads(arcs[row], constraint, number, word)
            _apply_relations(relations[row], constraint, number, word, names)
    return AllowedArcs(arcs, relations)


def _check_words(own: tuple[str, ...], constraint: ConlluSentence) -> None:
    theirs = tuple(word.form for word in constraint.words)
    if own != theirs:
        i = next((i for i, (a, b) in enumerate(zip(own, theirs, strict=False)) if a != b), min(len(own), len(theirs)))
        a, b = (words[i] if i < len(words) else "no word" for words in (own, theirs))
        raise DataError(
            f"{constraint.location} must have the words of its sentence, with word {i + 1} {a!r}, got {b!r}. Give the "
            f"same sentences in the same order."
        )


def _apply_heads(arcs: Tensor, constraint: ConlluSentence, number: int, word: ConlluRow) -> None:
    if word.head != "_":
        kept = arcs[int(word.head), number].clone()
        arcs[:, number] = False
        arcs[int(word.head), number] = kept
    for head in _listed(word, NOT_HEAD):
        if not head.isdecimal() or int(head) > len(constraint.words):
            raise DataError(
                f"{word_location(constraint, number)}: {NOT_HEAD} must list words from 0 (the root) to "
                f"{len(constraint.words)}, got {head!r}. Separate the numbers by commas."
            )
        arcs[int(head), number] = False


def _apply_relations(
    relations: Tensor, constraint: ConlluSentence, number: int, word: ConlluRow, names: Labels
) -> None:
    fixed = [] if word.deprel == "_" else [word.deprel]
    forbidden = _listed(word, NOT_DEPREL)
    try:
        fixed_ids, forbidden_ids = names.ids(fixed), names.ids(forbidden)
    except DataError as error:
        raise DataError(f"{word_location(constraint, number)}: {error}") from None
    if fixed_ids:
        relations[number] = False
        relations[number, fixed_ids] = True
    relations[number, forbidden_ids] = False


def _listed(word: ConlluRow, key: str) -> list[str]:
    """The values of a key in MISC, such as NotHead=3,4."""
    for part in word.misc.split("|"):
        name, equals, value = part.partition("=")
        if equals and name == key:
            return value.split(",")
    return []
