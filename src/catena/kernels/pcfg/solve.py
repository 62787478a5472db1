"""From tensors to charts and back: chunks of a batch, sentences that need log space, and gradients put together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from catena.kernels.pcfg.chart import ChartLayout, PCFGChart, PCFGProblem, PCFGRules

AT_ONCE = 2**23
"""Sentences are done together as long as the tables for them have no more numbers than this."""


@dataclass(frozen=True)
class SolveKind:
    """A kind of rules: how to multiply with them, and how to do a sentence in log space."""

    rules: Callable[..., PCFGRules]
    """From a problem, its layout, whether only signs are computed, and whether all is kept for the way down."""

    log_rows: Callable[..., None]


@dataclass(frozen=True)
class Solved:
    """log Z, whether it was found without logs, and the chart, padded to ``t (t + 1) / 2`` spans for each sentence."""

    log_z: Tensor
    exact: Tensor
    chart: Tensor
    e: Tensor


@dataclass(frozen=True)
class Gradients:
    """Of log Z, by what a :class:`PCFGProblem` holds."""

    words: Tensor
    rules: tuple[Tensor, ...]
    roots: Tensor
    spans: Tensor

    @classmethod
    def zeros(cls, problem: PCFGProblem) -> Gradients:
        spans = problem.words.new_zeros(1, 0, 0, 0) if problem.spans is None else torch.zeros_like(problem.spans)
        rules = tuple(torch.zeros_like(x) for x in problem.rules)
        return cls(torch.zeros_like(problem.words), rules, torch.zeros_like(problem.roots), spans)

    def add(self, rows: Tensor, other: Gradients) -> None:
        """Add what was found for some rows."""
        self.words[rows] += other.words
        pairs = [*zip(self.rules, other.rules, strict=True), (self.roots, other.roots)]
        for mine, theirs in pairs:
            if len(mine) == 1:
                mine += theirs.sum(0, keepdim=True)
            else:
                mine.index_add_(0, rows, theirs)
        if self.spans.numel():
            self.spans[rows] += other.spans


KEEP_ALL = 2**20
"""Numbers up to which the tables of a batch are kept from the way up for the way down."""


@dataclass(frozen=True)
class KeptChart:
    """A small batch, all of it exact, after the way up."""

    problem: PCFGProblem
    chart: PCFGChart
    log_z: Tensor

    @classmethod
    def solve(cls, problem: PCFGProblem, kind: SolveKind) -> KeptChart | None:
        """None where the batch has a score of nan or +inf, or needs log space."""
        if _without_wrong_rows(problem)[1] is not None:
            return None
        layout = ChartLayout(problem.lengths, problem.words.shape[1])
        chart = PCFGChart(problem, kind.rules(problem, layout, False, True))
        log_z, suspect = chart.inside()
        return None if suspect.any() else cls(problem, chart, log_z)

    def gradients(self, scale: Tensor) -> Gradients:
        """The gradients of log Z, times ``scale`` for each sentence."""
        found = _spread(self.problem, self.chart, self.chart.outside(scale.double()))
        if len(self.problem.roots) == 1:
            return replace(found, roots=found.roots.sum(0, keepdim=True))
        return found


def build_problem(
    words: Tensor, rules: Sequence[Tensor], roots: Tensor, spans: Tensor | None, lengths: Tensor
) -> PCFGProblem:
    """Float64, contiguous, and what is shared by some rows only is each row's own."""
    b, t = words.shape[:2]

    def ready(x: Tensor) -> Tensor:
        x = x.detach().double()
        return (x if len(x) in (1, b) else x.repeat_interleave(b // len(x), 0)).contiguous()

    spans = None if spans is None else ready(spans)
    return PCFGProblem(
        ready(words), tuple(ready(x) for x in rules), ready(roots), spans, lengths.clamp(0, t).contiguous()
    )


def solve_inside(problem: PCFGProblem, kind: SolveKind, keep: bool) -> Solved:
    """log Z of each sentence; with ``keep`` also what the way down needs."""
    problem, wrong = _without_wrong_rows(problem)
    b, t = problem.words.shape[:2]
    size = t * (t + 1) // 2 if keep else 0
    log_z = torch.empty(b, dtype=torch.float64)
    exact = torch.ones(b, dtype=torch.bool)
    chart = torch.zeros(b, size, problem.rules[0].shape[1], dtype=torch.float64)
    e = torch.zeros(b, size, dtype=torch.int64)
    for rows, part in _chunks(problem):
        layout = ChartLayout(part.lengths, t)
        done = PCFGChart(part, kind.rules(part, layout, False))
        log_z[rows], suspect = done.inside()
        if suspect.any():
            signs = PCFGChart(part, kind.rules(part, layout, True), signs_only=True)
            signs.inside()
            exact[rows] = ~(suspect & done.lost(signs))
        if keep:
            chart[rows] = done.chart.new_zeros(len(rows) * size, chart.shape[2]).index_copy_(
                0, layout.padded, done.chart
            ).view(len(rows), size, -1)  # fmt: skip
            e[rows] = done.e.new_zeros(len(rows) * size).index_copy_(0, layout.padded, done.e).view(len(rows), size)
    rest = (~exact).nonzero()[:, 0]
    if len(rest):
        log_z[rest] = _in_logs(problem.take(rest), kind, torch.ones(len(rest)).double(), both_ways=False)[0]
    if wrong is not None:
        log_z[wrong] = torch.nan
    return Solved(log_z, exact, chart, e)


def solve_outside(problem: PCFGProblem, kind: SolveKind, scale: Tensor, found: Solved) -> Gradients:
    """The gradients of log Z, times ``scale`` for each sentence."""
    problem, wrong = _without_wrong_rows(problem)
    total = Gradients.zeros(problem)
    t = problem.words.shape[1]
    scale = scale.double()
    for rows, part in _chunks(problem):
        layout = ChartLayout(torch.where(found.exact[rows], part.lengths, 0), t)
        rules = kind.rules(part, layout, False)
        chart = PCFGChart(part, rules)
        chart.chart = found.chart[rows].flatten(0, 1)[layout.padded]
        chart.e = found.e[rows].flatten()[layout.padded]
        by_roots = chart.outside(scale[rows])
        total.add(rows, _spread(part, chart, by_roots))
    rest = (~found.exact).nonzero()[:, 0]
    if len(rest):
        total.add(rest, _in_logs(problem.take(rest), kind, scale[rest], both_ways=True)[1])
    if wrong is not None and wrong.any():
        for x in (total.words, *total.rules, total.roots, total.spans):
            x[wrong if len(x) == len(wrong) else slice(None)] = torch.nan
    return total


def _without_wrong_rows(problem: PCFGProblem) -> tuple[PCFGProblem, Tensor | None]:
    """Without words where a score is nan or +inf, which a chart would take for weight 0; and which rows these are.

    None where there is no such score anywhere.
    """
    shared = [problem.roots, *problem.rules]
    tensors = [problem.words, *shared, *([] if problem.spans is None else [problem.spans])]
    if all(x.numel() == 0 or float(x.amax()) < torch.inf for x in tensors):
        return problem, None
    places = torch.arange(problem.words.shape[1])
    lengths = problem.lengths
    real = places < lengths[:, None]
    wrong = (~(problem.words.amax(-1) < torch.inf) & real).any(1)
    for x, least in zip(shared, (1, *(2 for _ in problem.rules)), strict=True):
        wrong = wrong | (~(x.flatten(1).amax(1) < torch.inf) & (lengths >= least))
    if problem.spans is not None:
        read = (places[:, None] < places) & real[:, None]
        wrong = wrong | (~(problem.spans.amax(-1) < torch.inf) & read).flatten(1).any(1)
    return replace(problem, lengths=torch.where(wrong, 0, lengths)), wrong


def _spread(part: PCFGProblem, chart: PCFGChart, by_roots: Tensor) -> Gradients:
    """The gradients of a chart, back where the scores are."""
    layout = chart.layout
    found = Gradients.zeros(part)
    sentence, first, last = layout.spans
    n_words = layout.n_words
    found.words[sentence[:n_words], first[:n_words]] = chart.by_words * chart.words
    if part.spans is not None:
        found.spans[sentence, first, last] = chart.gradients * chart.chart
    return Gradients(found.words, chart.rules.gradients(), by_roots, found.spans)


def _in_logs(problem: PCFGProblem, kind: SolveKind, scale: Tensor, both_ways: bool) -> tuple[Tensor, Gradients]:
    log_z = torch.empty(len(scale), dtype=torch.float64)
    found = Gradients.zeros(problem)
    has_spans = problem.spans is not None
    spans = problem.spans if problem.spans is not None else problem.words.new_zeros(1, 1, 1, 1)
    by_spans = found.spans if has_spans else problem.words.new_zeros(1, 1, 1, 1)
    given: list[Any] = [x.numpy() for x in (problem.words, *problem.rules, problem.roots, spans)]
    results = [x.numpy() for x in (log_z, found.words, *found.rules, found.roots, by_spans)]
    kind.log_rows(*given, has_spans, problem.lengths.numpy(), scale.numpy(), both_ways, *results)
    return log_z, found


def _chunks(problem: PCFGProblem) -> Iterator[tuple[Tensor, PCFGProblem]]:
    """The rows of the batch in blocks, and the problem of each."""
    b = len(problem.words)
    _, t, p = problem.words.shape
    each = max(1, AT_ONCE // count_numbers(t, problem.rules[0].shape[1], p))
    for low in range(0, b, each):
        rows = torch.arange(low, min(low + each, b))
        yield rows, problem if each >= b else problem.take(rows)


def count_numbers(t: int, n: int, p: int) -> int:
    """The size of the tables for one sentence of ``t`` words, with ``n`` nonterminals and ``p`` preterminals."""
    return t * (4 * n * n + 2 * p * n + 2 * t * n)
