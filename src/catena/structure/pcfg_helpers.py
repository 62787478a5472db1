"""Common helpers of PCFGs with dense and low-rank rules: words, roots, spans, shapes and constraints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from catena.errors import ShapeError
from catena.numerics import NEG_INF
from catena.structure.checks import broadcasts_to_batch
from catena.structure.semirings import Semiring
from catena.structure.span_constraints import SpanConstraint
from catena.structure.spans import SpanNodes, at_span, gather_spans

G = TypeVar("G", bound=Any)


def sentence_lengths(words: Float[Tensor, "*batch t p"], lengths: Int[Tensor, "..."] | None) -> Int[Tensor, "*batch"]:
    """The number of words of every sentence."""
    batch = words.shape[:-2]
    if lengths is None:
        return torch.full(batch, words.shape[-2], device=words.device)
    return lengths.expand(batch)


def word_column(semiring: Semiring, words: Shaped[Tensor, "... t p"], n: int) -> Shaped[Tensor, "... t s"]:
    """The column of a chart for single words, with zero for all nonterminals."""
    return torch.cat((semiring.zero((*semiring.shape(words)[:-1], n), words), words), dim=-1)


def add_root_scores(
    semiring: Semiring,
    roots: Shaped[Tensor, "... r"],
    column: Shaped[Tensor, "... m s"],
    whole: Bool[Tensor, "*batch"],
    otherwise: Shaped[Tensor, "..."],
) -> Shaped[Tensor, "..."]:
    """The sum over root symbols of spans from position 0, where they are whole sentences; else ``otherwise``."""
    top = semiring.dot(roots, column[..., 0, : roots.shape[-1]], dim=-1)
    return torch.where(whole, top, otherwise)


def symbol_chart(
    words: Float[Tensor, "*batch t p"], spans: Float[Tensor, "*batch t t n"]
) -> Float[Tensor, "*batch t t s"]:
    """One chart over all symbols from values of single words and of longer spans."""
    longer = torch.ones(spans.shape[-3:-1], dtype=torch.bool, device=spans.device).triu(1)
    on_words = torch.diag_embed(words.movedim(-1, -2)).movedim(-3, -1)
    return torch.cat((torch.where(longer[..., None], spans, 0.0), on_words), dim=-1)


def split_value(
    value: Float[Tensor, "..."], words: Float[Tensor, "..."], n: int, s: int
) -> tuple[Float[Tensor, "..."], Float[Tensor, "..."]]:
    """A value shaped like the marginals as scores of words and of spans."""
    t = words.shape[-2]
    if value.dim() < 3 or tuple(value.shape[-3:]) != (t, t, s):
        raise ShapeError(
            f"value must end in the axes [t, t, s] = {[t, t, s]}, got {list(value.shape)}. For values of rules pass a "
            "grammar with those rules as its scores."
        )
    value = value.to(words.dtype)
    return value[..., n:].diagonal(dim1=-3, dim2=-2).movedim(-1, -2), value[..., :n]


def spans_or_zeros(grammar: G) -> G:
    """A copy of a grammar with span scores for every row, by default 0, whose gradient gives the marginals."""
    n, t = grammar.sizes[0], grammar.words.shape[-2]
    spans = grammar.words.new_zeros(()) if grammar.spans is None else grammar.spans
    return replace(grammar, spans=spans.expand(*grammar.batch_shape, t, t, n))


def apply_constraint(
    constraint: SpanConstraint, words: Float[Tensor, "*batch t p"], spans: Float[Tensor, "*#batch t t n"] | None, n: int
) -> tuple[Float[Tensor, "*batch t p"], Float[Tensor, "*batch t t n"]]:
    """Scores of words and spans with -inf where a symbol is forbidden."""
    *batch, t, p = words.shape
    spans = words.new_zeros(t, t, n) if spans is None else spans
    chart = torch.cat((spans.expand(*batch, t, t, n), words[..., None, :, :].expand(*batch, t, t, p)), dim=-1)
    chart = constraint.applied(chart)
    return chart[..., n:].diagonal(dim1=-3, dim2=-2).movedim(-1, -2), chart[..., :n]


def score_of_words_roots_and_spans(
    nodes: SpanNodes,
    words: Float[Tensor, "..."],
    roots: Float[Tensor, "..."],
    spans: Float[Tensor, "..."] | None,
    lengths: Int[Tensor, "..."],
    n: int,
    s: int,
) -> Float[Tensor, "..."]:
    """The score of a parse without its rules; -inf if it is not a valid parse."""
    word = nodes.real & (nodes.first == nodes.last)
    fits = torch.where(
        word, (nodes.label >= n) & (nodes.label < s), ~nodes.real | ((nodes.label >= 0) & (nodes.label < n))
    )
    top, r = nodes.label[..., :1], roots.shape[-1]
    fits = fits.all(-1) & (top[..., 0] >= 0) & (top[..., 0] < r)
    t, p = words.shape[-2:]
    place = nodes.first.clamp(0, t - 1) * p + (nodes.label - n).clamp(0, p - 1)
    score = torch.where(word, gather_spans(words.flatten(-2), place), 0.0).sum(-1)
    score = score + gather_spans(roots, top.clamp(0, r - 1))[..., 0]
    if spans is not None:
        score = score + torch.where(nodes.inner, at_span(spans, nodes, nodes.label), 0.0).sum(-1)
    return torch.where(fits & nodes.are_trees(lengths), score, NEG_INF)


def roots_of_all(roots: Float[Tensor, "*batch r"], s: int) -> Float[Tensor, "*batch s"]:
    """Root scores of all symbols, with -inf for symbols without a score."""
    missing = s - roots.shape[-1]
    if missing == 0:
        return roots
    return torch.cat((roots, roots.new_full((*roots.shape[:-1], missing), NEG_INF)), dim=-1)


def add_row_axis(x: Float[Tensor, "..."], batch: torch.Size, rank: int) -> Float[Tensor, "..."]:
    """A shared tensor as ``[1, ...]``, one with batch axes as ``[b, ...]``."""
    own = x.shape[x.dim() - rank :]
    return x[None] if x.dim() == rank else x.expand(*batch, *own).reshape(-1, *own)


def check_grammar_shapes(
    words: Tensor, roots: Tensor, n: int, others: Mapping[str, tuple[Tensor | None, tuple[int, ...]]]
) -> None:
    """Raise ShapeError if the tensors of a grammar do not fit together."""
    if words.dim() < 2 or 0 in words.shape[-2:] or n < 1:
        raise ShapeError(
            f"words must have shape [*batch, t, p] with sizes of at least 1 and at least 1 nonterminal, got "
            f"{list(words.shape)} and {n} nonterminals. Pass one score for each word and preterminal."
        )
    batch, s = words.shape[:-2], n + words.shape[-1]
    if roots.dim() < 1 or (roots.shape[-1] != n and roots.shape[-1] != s):
        raise ShapeError(
            f"roots must have a last axis of {n} (nonterminals) or {s} (all symbols), got {list(roots.shape)}. Pass "
            "one score for each symbol that may be the root."
        )
    for name, (given, own) in {**others, "roots": (roots, roots.shape[-1:])}.items():
        if given is None:
            continue
        if not broadcasts_to_batch(given.shape, (*batch, *own), len(own)):
            raise ShapeError(
                f"{name} must have shape {[*batch, *own]}, where batch axes may be 1 or missing, got "
                f"{list(given.shape)}. Fit it to words of shape {list(words.shape)} and {n} nonterminals."
            )
