r"""Distributions over the parses of a sentence by a grammar of binary rules.

.. math::  p(y) \propto \exp \Big( r(a_0) + \sum_{a \to b\, c \,\in\, y} \rho(a, b, c) + \sum_i w_i(p_i)
           + \sum_{(i, j, a) \in y} s_{ij}(a) \Big)

With the log-probabilities of a probabilistic context-free grammar as scores, log Z is the log-likelihood of the
sentence. With other scores it is a CRF over parses. All spans use the same rules: no tensor of size t² times the number
of rules is built.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import InitVar, dataclass, replace
from typing import ClassVar

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from catena.shapes import as_int64, mask_from_lengths
from catena.structure.backend import can_use_kernels
from catena.structure.base import SemiringDistribution, StructuredDistribution, TopK
from catena.structure.checks import check_floating, check_tensors, set_lengths, validate_structures
from catena.structure.constraints import OnInfeasible, check_feasible
from catena.structure.pcfg_helpers import (
    add_root_scores,
    add_row_axis,
    apply_constraint,
    check_grammar_shapes,
    roots_of_all,
    score_of_words_roots_and_spans,
    sentence_lengths,
    spans_or_zeros,
    split_value,
    symbol_chart,
    word_column,
)
from catena.structure.semirings import Semiring
from catena.structure.span_constraints import SpanConstraint
from catena.structure.spans import chart_of_tree, gather_spans, spans_inside, spans_of_width, to_nodes, tree_of_chart
from catena.structure.tensors import uniform_numbers


@dataclass(frozen=True, eq=False, repr=False)
class PCFG(SemiringDistribution):
    """Distribution over the parses of a sentence by binary rules (a PCFG posterior or a CRF parser).

    The symbols are ``n`` nonterminals, numbered from 0, followed by ``p`` preterminals, ``s = n + p`` in total. A
    preterminal covers one word, a nonterminal two or more.

    Structures are ``spans``: Int ``[*batch, 2 t - 1, 3]``, rows ``(first, last, symbol)`` in preorder, both words
    included, padded with rows of -1. As input, rows may be in any order. Parts and marginals are ``[*batch, t, t, s]``.

    Args:
        words: ``words[..., i, q]`` is the score of preterminal number ``q`` (symbol ``n + q``) over word ``i``.
        rules: ``rules[..., a, b, c]`` is the score of nonterminal ``a`` with children ``b`` and ``c``, any symbols.
            Without batch axes it is shared by the batch.
        roots: ``roots[..., a]`` is the score of symbol ``a`` at the root, for the nonterminals or for all symbols. With
            all symbols, a sentence of one word can have a parse.
        spans: ``spans[..., i, j, a]`` is an additional score of nonterminal ``a`` over the words ``i`` to ``j``.
            Entries with ``i >= j`` are not read.
        lengths: number of words in each sentence; all ``t`` if omitted.
        constraint: the allowed spans and symbols. The distribution is conditioned on it.
        on_infeasible: what to do if the constraint allows no parse. ``"error"`` raises
            :class:`~catena.errors.ImpossibleError`; ``"-inf"`` sets log Z to -inf.

    A sentence without words has no parse: its log Z is -inf.

    Time O(t³ n² + t² n s²), memory O(t² n + n s²). Baker (1979); Goodman (1999).
    """

    words: Float[Tensor, "*batch t p"]
    rules: Float[Tensor, "*#batch n s s"]
    roots: Float[Tensor, "*#batch r"]
    spans: Float[Tensor, "*#batch t t n"] | None = None
    lengths: Int[Tensor, "*#batch"] | None = None
    constraint: InitVar[SpanConstraint | None] = None
    on_infeasible: InitVar[OnInfeasible] = "error"

    ranks: ClassVar[tuple[int, ...]] = (2, 3, 1, 3)

    def __post_init__(self, constraint: SpanConstraint | None, on_infeasible: OnInfeasible) -> None:
        check_tensors(self, "words", "rules", "roots", "spans", "lengths")
        n, s = self.sizes
        own = {"rules": (n, s, s), "spans": (*self.words.shape[-2:-1] * 2, n), "lengths": ()}
        check_grammar_shapes(
            self.words, self.roots, n, {name: (getattr(self, name), axes) for name, axes in own.items()}
        )
        check_floating(self.score_tensors())
        set_lengths(self, {"lengths": self.words.shape[-2]}, {"words": 2})
        if constraint is not None:
            words, spans = apply_constraint(constraint, self.words, self.spans, n)
            object.__setattr__(self, "words", words)
            object.__setattr__(self, "spans", spans)
            check_feasible(self, on_infeasible)

    @classmethod
    def of_one_kind(
        cls,
        words: Float[Tensor, "*batch t n"],
        rules: Float[Tensor, "*#batch n n n"],
        roots: Float[Tensor, "*#batch n"],
        lengths: Int[Tensor, "*#batch"] | None = None,
    ) -> PCFG:
        """A distribution from a grammar in Chomsky normal form whose symbols may cover one word or more.

        Symbol ``a`` over one word becomes preterminal number ``a``, that is, symbol ``n + a``.

        Args:
            words: ``words[..., i, a]`` is the score of symbol ``a`` over word ``i``.
            rules: ``rules[..., a, b, c]`` is the score of symbol ``a`` with children ``b`` and ``c``.
            roots: ``roots[..., a]`` is the score of symbol ``a`` at the root.
            lengths: number of words in each sentence; all if omitted.
        """
        twice = torch.cat((rules, rules), dim=-1)
        return cls(words, torch.cat((twice, twice), dim=-2), torch.cat((roots, roots), dim=-1), lengths=lengths)

    # --- interface ------------------------------------------------------------------------------------------

    @property
    def sizes(self) -> tuple[int, int]:
        """The number of nonterminals and the number of all symbols."""
        return self.rules.shape[-3], self.rules.shape[-3] + self.words.shape[-1]

    @property
    def batch_shape(self) -> torch.Size:
        return self.words.shape[:-2]

    def score_tensors(self) -> tuple[Tensor | None, ...]:
        return self.words, self.rules, self.roots, self.spans

    def with_score_tensors(self, tensors: Sequence[Tensor | None]) -> PCFG:
        words, rules, roots, spans = tensors
        assert words is not None
        assert rules is not None
        assert roots is not None
        return PCFG(words, rules, roots, spans, self.lengths)

    def extent(self) -> tuple[Shaped[Tensor, "..."], ...]:
        return (self._lengths(),)

    def from_parts(self, value: Tensor) -> PCFG:
        words, spans = split_value(value, self.words, *self.sizes)
        return PCFG(words, torch.zeros_like(self.rules), torch.zeros_like(self.roots), spans, self.lengths)

    def given(self, constraint: SpanConstraint, on_infeasible: OnInfeasible = "error") -> PCFG:
        """This distribution conditioned on ``constraint``.

        Args:
            constraint: the allowed spans and symbols.
            on_infeasible: what to do if no parse is allowed, as in the constructor.
        """
        return replace(self, constraint=constraint, on_infeasible=on_infeasible)

    def score(self, y: Int[Tensor, "*batch m 3"]) -> Float[Tensor, "*batch"]:
        y = validate_structures(y, self.batch_shape, {"m": None, "triple": 3})
        nodes, s = to_nodes(y, self.words.shape[-2]), self.sizes[1]
        rest = score_of_words_roots_and_spans(nodes, self.words, self.roots, self.spans, self._lengths(), *self.sizes)
        labels = (nodes.label, nodes.label.gather(-1, nodes.left), nodes.label.gather(-1, nodes.right))
        a, b, c = (torch.where(nodes.inner, x, 0).clamp(0, s - 1) for x in labels)
        place = (a.clamp_max(self.sizes[0] - 1) * s + b) * s + c
        return rest + torch.where(nodes.inner, gather_spans(self.rules.flatten(-3), place), 0.0).sum(-1)

    def parts(self, y: Int[Tensor, "*batch m 3"]) -> Float[Tensor, "*batch t t s"]:
        y = validate_structures(y, self.batch_shape, {"m": None, "triple": 3})
        return chart_of_tree(y, self.words.shape[-2], self.sizes[1]).to(self.words.dtype)

    def rule_counts(self, y: Int[Tensor, "*batch m 3"]) -> Float[Tensor, "*batch n s s"]:
        """The number of times that each rule is used in a parse, in the shape of :meth:`expected_rules`."""
        y = as_int64("spans", y)
        nodes, (n, s) = to_nodes(y, self.words.shape[-2]), self.sizes
        left, right = nodes.label.gather(-1, nodes.left), nodes.label.gather(-1, nodes.right)
        there = nodes.inner & (nodes.label >= 0) & (nodes.label < n) & (torch.minimum(left, right) >= 0)
        there = there & (torch.maximum(left, right) < s)
        place = torch.where(there, (nodes.label * s + left) * s + right, n * s * s)
        counts = torch.zeros(*y.shape[:-2], n * s * s + 1, dtype=self.words.dtype, device=y.device)
        counts = counts.scatter_add(-1, place, torch.ones_like(place, dtype=counts.dtype))
        return counts[..., :-1].unflatten(-1, (n, s, s))

    def log_partition(self) -> Float[Tensor, "*batch"]:
        if not can_use_kernels(*self.score_tensors()):
            return self.plain_log_partition()
        from catena.kernels.pcfg.ops import log_partition

        log_z = log_partition(*self._rows())
        return log_z if len(self.batch_shape) == 1 else log_z.reshape(self.batch_shape)

    def marginals(self) -> Float[Tensor, "*batch t t s"]:
        """``[..., i, j, a]`` is the probability that symbol ``a`` covers the words ``i`` to ``j``."""
        words, spans = spans_or_zeros(self).gradients([0, 3])[1]
        return symbol_chart(words, spans)

    def expected_rules(self) -> Float[Tensor, "*batch n s s"]:
        """``[..., a, b, c]`` is the expected number of times that the rule is used."""
        return self._spread_over(self.batch_shape).gradients([1])[1][0]

    def _argmax(self) -> Int[Tensor, "*batch m 3"]:
        if not can_use_kernels(*self.score_tensors()):
            return SemiringDistribution._argmax(spans_or_zeros(self))
        from catena.kernels.pcfg.ops_search import best

        found = best(*self._rows())
        return found.reshape(*self.batch_shape, *found.shape[1:])

    def _topk(self, k: int) -> TopK:
        if not can_use_kernels(*self.score_tensors()):
            return SemiringDistribution._topk(spans_or_zeros(self), k)
        from catena.kernels.pcfg.ops_search import top

        spans, found = top(*self._rows(), k)
        structures = spans.transpose(0, 1).reshape(k, *self.batch_shape, *spans.shape[2:])
        return self._best_first(structures, found)

    def _sample(self, n: int, generator: torch.Generator | None) -> Int[Tensor, "k *batch m 3"]:
        if not can_use_kernels(*self.score_tensors()):
            return SemiringDistribution._sample(spans_or_zeros(self), n, generator)
        from catena.kernels.pcfg.ops_search import sample

        rows = self._rows()
        b, t = rows[0].shape[:2]
        uniforms = uniform_numbers(n, b, 2 * t, generator=generator)
        found = sample(*rows, uniforms)
        return found.reshape(n, *self.batch_shape, *found.shape[2:])

    # --- reference program ----------------------------------------------------------------------------------

    def read_parts(self) -> tuple[Tensor | None, ...]:
        t = self.words.shape[-2]
        return mask_from_lengths(self._lengths(), t)[..., None], None, None, spans_inside(self._lengths(), t)

    def _total(
        self, semiring: Semiring, *values: StructuredDistribution | Shaped[Tensor, "..."]
    ) -> Shaped[Tensor, "..."]:
        words, rules, roots, spans = self.lifted(semiring, values)
        assert words is not None
        assert rules is not None
        assert roots is not None
        lengths, t, (n, s) = self._lengths(), self.words.shape[-2], self.sizes
        by_width = [word_column(semiring, words, n)]  # by_width[w][..., i, a]: symbol a over the w + 1 words from i
        total = add_root_scores(semiring, roots, by_width[0], lengths == 1, semiring.zero(self.batch_shape, words))
        for width in range(2, t + 1):
            starts = t - width + 1
            left = torch.stack([by_width[u][..., :starts, :] for u in range(width - 1)], dim=-2)
            right = torch.stack([by_width[-1 - u][..., u + 1 : u + 1 + starts, :] for u in range(width - 1)], dim=-2)
            pairs = semiring.dot(left[..., :, None], right[..., None, :], dim=-3).flatten(-2)  # ... starts s·s
            here = semiring.dot(rules.flatten(-2)[..., None, :, :], pairs[..., None, :], dim=-1)  # ... starts n
            if spans is not None:
                here = semiring.mul(here, spans_of_width(spans, width))
            nothing = semiring.zero((*self.batch_shape, starts, s - n), words)
            by_width.append(torch.cat((here, nothing), dim=-1))
            total = add_root_scores(semiring, roots, by_width[-1], lengths == width, total)
        return total

    def read_structure(self, gradients: Sequence[Tensor | None]) -> Int[Tensor, "*batch m 3"]:
        words, _, _, spans = gradients
        assert words is not None
        assert spans is not None
        return tree_of_chart(symbol_chart(words, spans))

    # --- helpers --------------------------------------------------------------------------------------------

    def _lengths(self) -> Int[Tensor, "*batch"]:
        return sentence_lengths(self.words, self.lengths)

    def _rows(self) -> tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor]:
        """Words, rules, roots, spans and lengths with one batch axis, of size 1 for shared tensors."""
        (n, s), t, batch = self.sizes, self.words.shape[-2], self.batch_shape
        rules, roots = add_row_axis(self.rules, batch, 3), add_row_axis(roots_of_all(self.roots, s), batch, 1)
        spans = None if self.spans is None else self.spans.expand(*batch, t, t, n).reshape(-1, t, t, n)
        words = self.words if len(batch) == 1 else self.words.reshape(-1, *self.words.shape[-2:])
        return words, rules, roots, spans, self._lengths().reshape(-1)
