r"""PCFGs with low-rank rules: a rule selects one of ``r`` ranks, which selects the two children independently.

.. math::  \rho(a, b, c) = \log \sum_{q=1}^{r} \exp \big( u(a, q) + v(q, b) + w(q, c) \big)

The tensor of n·s·s rules is decomposed into three matrices. The cost of a parse does not depend on pairs of symbols,
so grammars with hundreds of symbols are feasible."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import InitVar, dataclass, replace
from typing import ClassVar

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from catena.numerics import NEG_INF, log_sum_exp
from catena.shapes import mask_from_lengths
from catena.structure.backend import can_use_kernels
from catena.structure.base import SemiringDistribution, StructuredDistribution, TopK
from catena.structure.checks import check_floating, check_tensors, set_lengths, validate_structures
from catena.structure.constraints import OnInfeasible, check_feasible
from catena.structure.pcfg import PCFG
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
from catena.structure.spans import chart_of_tree, in_preorder, spans_inside, spans_of_width, to_nodes, tree_of_chart
from catena.structure.tensors import uniform_numbers


@dataclass(frozen=True, eq=False, repr=False)
class LowRankPCFG(SemiringDistribution):
    """Distribution over the parses of a sentence by low-rank binary rules, and over the ranks of the rules.

    The symbols are ``n`` nonterminals, numbered from 0, followed by ``p`` preterminals, ``s = n + p`` in total. A
    preterminal covers one word, a nonterminal two or more.

    Structures are ``spans``: Int ``[*batch, 2 t - 1, 4]``, rows ``(first, last, symbol, rank)`` in preorder, both words
    included, padded with rows of -1. The rank of a single word is -1. As input, rows may be in any order, and a rank of
    -1 for a rule means any rank: ``score`` and ``log_prob`` then sum over the ranks and give the value of the parse.
    Parts and marginals are ``[*batch, t, t, s]``, summed over ranks.

    ``argmax`` and ``topk`` find the best parses *with ranks*. For the best parse summed over ranks use :meth:`dense`,
    which has the same parses, log Z and marginals, at the cost of dense rules.

    Args:
        words: ``words[..., i, q]`` is the score of preterminal number ``q`` (symbol ``n + q``) over word ``i``.
        parents: ``parents[..., a, q]`` is the score of rank ``q`` for nonterminal ``a``. This and all following tensors
            are shared by the batch if they have no batch axes.
        lefts: ``lefts[..., q, b]`` is the score of symbol ``b`` as the left child under rank ``q``.
        rights: ``rights[..., q, c]`` is the score of symbol ``c`` as the right child under rank ``q``.
        roots: ``roots[..., a]`` is the score of symbol ``a`` at the root, for the nonterminals or for all symbols. With
            all symbols, a sentence of one word can have a parse.
        spans: ``spans[..., i, j, a]`` is an additional score of nonterminal ``a`` over the words ``i`` to ``j``.
        rank_spans: ``rank_spans[..., i, j, q]`` is an additional score of rank ``q`` there. It disables the kernels.
        lengths: number of words in each sentence; all ``t`` if omitted.
        constraint: the allowed spans and symbols. The distribution is conditioned on it.
        on_infeasible: what to do if the constraint allows no parse. ``"error"`` raises
            :class:`~catena.errors.ImpossibleError`; ``"-inf"`` sets log Z to -inf.

    Time O(t³ r + t² r s), memory O(t² (s + r)). Cohen et al. (2013); Yang et al. (2021), section 3. Measured time
    grows as t^3.3 to t^3.5 from 160 to 320 words (rank 32), because entries of a chart larger than the cache are
    loaded for a single product.
    """

    words: Float[Tensor, "*batch t p"]
    parents: Float[Tensor, "*#batch n r"]
    lefts: Float[Tensor, "*#batch r s"]
    rights: Float[Tensor, "*#batch r s"]
    roots: Float[Tensor, "*#batch m"]
    spans: Float[Tensor, "*#batch t t n"] | None = None
    rank_spans: Float[Tensor, "*#batch t t r"] | None = None
    lengths: Int[Tensor, "*#batch"] | None = None
    constraint: InitVar[SpanConstraint | None] = None
    on_infeasible: InitVar[OnInfeasible] = "error"

    ranks: ClassVar[tuple[int, ...]] = (2, 2, 2, 2, 1, 3, 3)

    def __post_init__(self, constraint: SpanConstraint | None, on_infeasible: OnInfeasible) -> None:
        check_tensors(self, "words", "parents", "lefts", "rights", "roots", "spans", "rank_spans", "lengths")
        (n, s), t, r = self.sizes, self.words.shape[-2], self.parents.shape[-1]
        own = {"parents": (n, r), "lefts": (r, s), "rights": (r, s), "spans": (t, t, n), "rank_spans": (t, t, r)}
        given = {name: (getattr(self, name), axes) for name, axes in own.items()}
        check_grammar_shapes(self.words, self.roots, n, {**given, "lengths": (self.lengths, ())})
        check_floating(self.score_tensors())
        set_lengths(self, {"lengths": self.words.shape[-2]}, {"words": 2})
        if constraint is not None:
            words, spans = apply_constraint(constraint, self.words, self.spans, n)
            object.__setattr__(self, "words", words)
            object.__setattr__(self, "spans", spans)
            check_feasible(self, on_infeasible)

    # --- interface ------------------------------------------------------------------------------------------

    @property
    def sizes(self) -> tuple[int, int]:
        """The number of nonterminals and the number of all symbols."""
        return self.parents.shape[-2], self.parents.shape[-2] + self.words.shape[-1]

    @property
    def batch_shape(self) -> torch.Size:
        return self.words.shape[:-2]

    def score_tensors(self) -> tuple[Tensor | None, ...]:
        return self.words, self.parents, self.lefts, self.rights, self.roots, self.spans, self.rank_spans

    def with_score_tensors(self, tensors: Sequence[Tensor | None]) -> LowRankPCFG:
        words, parents, lefts, rights, roots, spans, rank_spans = tensors
        assert words is not None
        assert parents is not None
        assert lefts is not None
        assert rights is not None
        assert roots is not None
        return LowRankPCFG(words, parents, lefts, rights, roots, spans, rank_spans, self.lengths)

    def extent(self) -> tuple[Shaped[Tensor, "..."], ...]:
        return (self._lengths(),)

    def from_parts(self, value: Tensor) -> LowRankPCFG:
        words, spans = split_value(value, self.words, *self.sizes)
        rest = (self.parents, self.lefts, self.rights, self.roots)
        return self.with_score_tensors((words, *(torch.zeros_like(x) for x in rest), spans, None))

    def given(self, constraint: SpanConstraint, on_infeasible: OnInfeasible = "error") -> LowRankPCFG:
        """This distribution conditioned on ``constraint``.

        Args:
            constraint: the allowed spans and symbols.
            on_infeasible: what to do if no parse is allowed, as in the constructor.
        """
        return replace(self, constraint=constraint, on_infeasible=on_infeasible)

    def dense(self) -> PCFG:
        """The same distribution over parses without ranks, as a PCFG. Raises ValueError if ``rank_spans`` is set."""
        if self.rank_spans is not None:
            raise ValueError("A grammar with rank_spans has no dense form, as its rules vary by span. Omit rank_spans.")
        pairs = self.lefts[..., :, :, None] + self.rights[..., :, None, :]
        rules = log_sum_exp(self.parents[..., :, :, None, None] + pairs[..., None, :, :, :], dim=-3)
        return PCFG(self.words, rules, self.roots, self.spans, self.lengths)

    def score(self, y: Int[Tensor, "*batch m 4"]) -> Float[Tensor, "*batch"]:
        y = validate_structures(y, self.batch_shape, {"m": None, "row": 4})
        t = self.words.shape[-2]
        nodes, rank = to_nodes(y, t), in_preorder(y, t)[..., 3]
        rest = score_of_words_roots_and_spans(nodes, self.words, self.roots, self.spans, self._lengths(), *self.sizes)
        left, right = nodes.label.gather(-1, nodes.left), nodes.label.gather(-1, nodes.right)
        terms = _rows_of(self.parents, nodes.label) + _rows_of(self.lefts.mT, left) + _rows_of(self.rights.mT, right)
        if self.rank_spans is not None:
            place = nodes.first.clamp_min(0) * t + nodes.last.clamp_min(0)
            terms = terms + _rows_of(self.rank_spans.flatten(-3, -2), place)
        one = terms.gather(-1, rank.clamp(0, terms.shape[-1] - 1)[..., None])[..., 0]
        picked = torch.where(rank < 0, log_sum_exp(terms, dim=-1), one)
        fits = (~nodes.real | torch.where(nodes.inner, (rank >= -1) & (rank < terms.shape[-1]), rank == -1)).all(-1)
        return torch.where(fits, rest + torch.where(nodes.inner, picked, 0.0).sum(-1), NEG_INF)

    def parts(self, y: Int[Tensor, "*batch m 4"]) -> Float[Tensor, "*batch t t s"]:
        y = validate_structures(y, self.batch_shape, {"m": None, "row": 4})
        return chart_of_tree(y, self.words.shape[-2], self.sizes[1]).to(self.words.dtype)

    def log_partition(self) -> Float[Tensor, "*batch"]:
        if not self._kernels_serve():
            return self.plain_log_partition()
        from catena.kernels.pcfg.ops import low_rank_log_partition

        log_z = low_rank_log_partition(*self._rows())
        return log_z if len(self.batch_shape) == 1 else log_z.reshape(self.batch_shape)

    def marginals(self) -> Float[Tensor, "*batch t t s"]:
        """``[..., i, j, a]`` is the probability that symbol ``a`` covers the words ``i`` to ``j``."""
        words, spans = spans_or_zeros(self).gradients([0, 5])[1]
        return symbol_chart(words, spans)

    def rank_marginals(self) -> Float[Tensor, "*batch t t r"]:
        """``[..., i, j, q]`` is the probability of a rule of rank ``q`` over the words ``i`` to ``j``."""
        return self._located().gradients([6])[1][0]

    def _argmax(self) -> Int[Tensor, "*batch m 4"]:
        if not self._kernels_serve():
            return SemiringDistribution._argmax(self._located())
        from catena.kernels.pcfg.ops_search import low_rank_best

        found = low_rank_best(*self._rows())
        return found.reshape(*self.batch_shape, *found.shape[1:])

    def _topk(self, k: int) -> TopK:
        if not self._kernels_serve():
            return SemiringDistribution._topk(self._located(), k)
        from catena.kernels.pcfg.ops_search import low_rank_top

        spans, found = low_rank_top(*self._rows(), k)
        structures = spans.transpose(0, 1).reshape(k, *self.batch_shape, *spans.shape[2:])
        return self._best_first(structures, found)

    def _sample(self, n: int, generator: torch.Generator | None) -> Int[Tensor, "k *batch m 4"]:
        if not self._kernels_serve():
            return SemiringDistribution._sample(self._located(), n, generator)
        from catena.kernels.pcfg.ops_search import low_rank_sample

        rows = self._rows()
        b, t = rows[0].shape[:2]
        uniforms = uniform_numbers(n, b, 4 * t, generator=generator)
        found = low_rank_sample(*rows, uniforms)
        return found.reshape(n, *self.batch_shape, *found.shape[2:])

    # --- reference program ----------------------------------------------------------------------------------

    def read_parts(self) -> tuple[Tensor | None, ...]:
        t = self.words.shape[-2]
        spans = spans_inside(self._lengths(), t)
        return mask_from_lengths(self._lengths(), t)[..., None], None, None, None, None, spans, spans

    def _total(
        self, semiring: Semiring, *values: StructuredDistribution | Shaped[Tensor, "..."]
    ) -> Shaped[Tensor, "..."]:
        words, parents, lefts, rights, roots, spans, rank_spans = self.lifted(semiring, values)
        assert words is not None
        assert parents is not None
        assert lefts is not None
        assert rights is not None
        assert roots is not None
        lengths, t, (n, s) = self._lengths(), self.words.shape[-2], self.sizes
        column = word_column(semiring, words, n)
        total = add_root_scores(semiring, roots, column, lengths == 1, semiring.zero(self.batch_shape, words))
        as_left: list[Tensor] = []  # as_left[w][..., i, q]: sum over left children over the w + 1 words from i
        as_right: list[Tensor] = []
        for width in range(2, t + 1):
            as_left.append(semiring.dot(lefts[..., None, :, :], column[..., None, :], dim=-1))
            as_right.append(semiring.dot(rights[..., None, :, :], column[..., None, :], dim=-1))
            starts = t - width + 1
            left = torch.stack([as_left[u][..., :starts, :] for u in range(width - 1)], dim=-2)
            right = torch.stack([as_right[-1 - u][..., u + 1 : u + 1 + starts, :] for u in range(width - 1)], dim=-2)
            merged = semiring.dot(left, right, dim=-2)  # ... starts r
            if rank_spans is not None:
                merged = semiring.mul(merged, spans_of_width(rank_spans, width))
            here = semiring.dot(parents[..., None, :, :], merged[..., None, :], dim=-1)  # ... starts n
            if spans is not None:
                here = semiring.mul(here, spans_of_width(spans, width))
            column = torch.cat((here, semiring.zero((*self.batch_shape, starts, s - n), words)), dim=-1)
            total = add_root_scores(semiring, roots, column, lengths == width, total)
        return total

    def read_structure(self, gradients: Sequence[Tensor | None]) -> Int[Tensor, "*batch m 4"]:
        words, spans, rank_spans = gradients[0], gradients[5], gradients[6]
        assert words is not None
        assert spans is not None
        assert rank_spans is not None
        tree, t = tree_of_chart(symbol_chart(words, spans)), self.words.shape[-2]
        best, rank = rank_spans.flatten(-3, -2).max(dim=-1)
        place = tree[..., 0].clamp_min(0) * t + tree[..., 1].clamp_min(0)
        has_rank = (tree[..., 0] < tree[..., 1]) & (best.gather(-1, place) > 0.5)
        return torch.cat((tree, torch.where(has_rank, rank.gather(-1, place), -1)[..., None]), dim=-1)

    # --- helpers --------------------------------------------------------------------------------------------

    def _located(self) -> LowRankPCFG:
        """A copy with scores of the symbols and ranks of spans, by default 0, whose gradients are the marginals."""
        t, r = self.words.shape[-2], self.parents.shape[-1]
        rank_spans = self.words.new_zeros(()) if self.rank_spans is None else self.rank_spans
        return replace(spans_or_zeros(self), rank_spans=rank_spans.expand(*self.batch_shape, t, t, r))

    def _kernels_serve(self) -> bool:
        return can_use_kernels(*self.score_tensors()) and self.rank_spans is None

    def _lengths(self) -> Int[Tensor, "*batch"]:
        return sentence_lengths(self.words, self.lengths)

    def _rows(self) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor | None, Tensor]:
        """Words, the three matrices, roots, spans and lengths with one batch axis, of size 1 for shared tensors."""
        (n, s), t, batch = self.sizes, self.words.shape[-2], self.batch_shape
        parents, lefts, rights = (add_row_axis(x, batch, 2) for x in (self.parents, self.lefts, self.rights))
        roots = add_row_axis(roots_of_all(self.roots, s), batch, 1)
        spans = None if self.spans is None else self.spans.expand(*batch, t, t, n).reshape(-1, t, t, n)
        words = self.words if len(batch) == 1 else self.words.reshape(-1, *self.words.shape[-2:])
        return words, parents, lefts, rights, roots, spans, self._lengths().reshape(-1)


def _rows_of(table: Float[Tensor, "..."], index: Int[Tensor, "*batch m"]) -> Float[Tensor, "*batch m r"]:
    """``table[..., index, :]``, or an arbitrary row if the index is out of range."""
    index = index.clamp(0, table.shape[-2] - 1)
    table = table.expand(*index.shape[:-1], *table.shape[-2:])
    return table.gather(-2, index[..., None].expand(*index.shape, table.shape[-1]))
