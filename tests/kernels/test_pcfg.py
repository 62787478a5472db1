"""The kernels of grammars: operators of torch, long sentences, sparse rules, hard ranges, chunks and threads."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from catena.kernels.common.sums import RowSums
from catena.kernels.pcfg import solve as pcfg_solve
from catena.kernels.pcfg.ops import LOW_RANK_SUMS, SUMS, log_partition, low_rank_log_partition
from catena.kernels.pcfg.ops_search import best, top
from catena.kernels.pcfg.small import SmallChart
from catena.structure.low_rank_pcfg import LowRankPCFG
from catena.structure.pcfg import PCFG
from tests.laws.structure_checks import kept_for_backward

N, P, R = 5, 4, 6


def drawn(*shape: int, seed: int = 1, scale: float = 1.0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * scale


def dense(b: int, t: int, g: int = 1, scale: float = 1.0, spans: bool = False) -> list[Tensor | None]:
    s = N + P
    scores = [
        drawn(b, t, P, seed=1, scale=scale),
        drawn(g, N, s, s, seed=2, scale=scale),
        drawn(g, s, seed=3, scale=scale),
    ]
    return [*scores, drawn(b, t, t, N, seed=4, scale=scale) if spans else None]


def low_rank(b: int, t: int, g: int = 1, scale: float = 1.0, spans: bool = False) -> list[Tensor | None]:
    words, _, roots, by_spans = dense(b, t, g, scale, spans)
    matrices = [drawn(g, N, R, seed=5, scale=scale), drawn(1, R, N + P, seed=6, scale=scale)]
    return [words, *matrices, drawn(g, R, N + P, seed=7, scale=scale), roots, by_spans]


KINDS: list[tuple[RowSums, Any]] = [(SUMS, dense), (LOW_RANK_SUMS, low_rank)]
KEEPING = {SUMS: log_partition, LOW_RANK_SUMS: low_rank_log_partition}
"""The functions that keep the tables of a small batch for the gradient."""


def value_and_slopes(function: Any, scores: list[Tensor | None], lengths: Tensor) -> tuple[Tensor, list[Tensor]]:
    inputs = [None if x is None else x.clone().requires_grad_() for x in scores]
    log_z = function(*inputs, lengths)
    weights = torch.arange(1.0, len(log_z) + 1)  # every sentence its own, so that none can be mixed up
    total = (weights * torch.where(log_z > -math.inf, log_z, 0.0)).sum()
    return log_z.detach(), list(torch.autograd.grad(total, [x for x in inputs if x is not None]))


def agree(sums: RowSums, scores: list[Tensor | None], lengths: Tensor, size: float = 1.0) -> None:
    expected, expected_slopes = value_and_slopes(sums.reference, scores, lengths)
    for function in (sums.log_partition, KEEPING[sums]):
        found, gradients = value_and_slopes(function, scores, lengths)
        assert torch.allclose(expected, found, rtol=1e-13, atol=1e-11 * size)
        for a, b in zip(expected_slopes, gradients, strict=True):
            assert (a - b).abs().max() < 1e-11 * size


@pytest.mark.parametrize(("sums", "make"), KINDS)
class TestBothKinds:
    @pytest.mark.parametrize("groups", [1, 2, 4])
    @pytest.mark.parametrize("lengths", [[9, 9, 9, 9], [9, 2, 0, 5], [1, 1, 1, 1]])
    def test_any_lengths_and_any_sharing(self, sums: RowSums, make: Any, groups: int, lengths: list[int]) -> None:
        agree(sums, make(4, 9, groups), torch.tensor(lengths))

    @pytest.mark.parametrize("scale", [1e-3, 30.0, 300.0, 1e4])
    def test_any_range_of_scores(self, sums: RowSums, make: Any, scale: float) -> None:
        agree(sums, make(3, 7, scale=scale, spans=True), torch.tensor([7, 6, 3]), size=max(scale, 1) * 10)

    def test_sparse_rules_words_and_spans(self, sums: RowSums, make: Any) -> None:
        scores = make(4, 8, spans=True)
        for i, x in enumerate(scores):
            hole = torch.rand(x.shape, generator=torch.Generator().manual_seed(i)) < 0.3
            scores[i] = x.masked_fill(hole, -math.inf)
        lengths = torch.tensor([8, 7, 5, 2])
        agree(sums, scores, lengths)
        exact = sums.keep_op(*scores, lengths)[1]
        assert exact.all(), "what is impossible must not be taken for lost"

    def test_overflow_of_floats_is_detected(self, sums: RowSums, make: Any) -> None:
        scores = make(2, 4)
        scores[0][0, :, 1:] = -1e3  # the first preterminal alone is likely, and no rule can use it
        if sums is SUMS:
            scores[1][:, :, N, :], scores[1][:, :, :, N] = -math.inf, -math.inf
        else:
            scores[2][:, :, N], scores[3][:, :, N] = -math.inf, -math.inf
        lengths = torch.tensor([4, 4])
        assert sums.keep_op(*scores, lengths)[1].tolist() == [False, True]
        agree(sums, scores, lengths, size=1e4)

    def test_chunks_of_a_batch_are_concatenated(
        self, sums: RowSums, make: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lengths = torch.tensor([6, 0, 3, 5, 1])
        whole = value_and_slopes(sums.log_partition, make(5, 6, spans=True), lengths)
        own = value_and_slopes(sums.log_partition, make(5, 6, 5, spans=True), lengths)
        monkeypatch.setattr(pcfg_solve, "AT_ONCE", 2500)
        for expected, groups in ((whole, 1), (own, 5)):
            found = value_and_slopes(sums.log_partition, make(5, 6, groups, spans=True), lengths)
            assert torch.allclose(expected[0], found[0])
            assert all(torch.allclose(a, b) for a, b in zip(expected[1], found[1], strict=True))

    def test_operators_pass_opcheck(self, sums: RowSums, make: Any) -> None:
        rules = ("test_schema", "test_faketensor")
        lengths = torch.tensor([3, 2])
        for spans in (False, True):
            scores = make(2, 3, spans=spans)
            torch.library.opcheck(sums.keep_op.overload, (*scores, lengths), test_utils=rules)
            _, exact, chart, e = sums.keep_op(*scores, lengths)
            scale = torch.ones(2).double()
            torch.library.opcheck(
                sums.gradients_op.overload, (scale, *scores, lengths, exact, chart, e), test_utils=rules
            )

    def test_gradient_needs_no_flag_in_advance(self, sums: RowSums, make: Any) -> None:
        """log Z alone, without keeping the chart, as a compiled graph may call it."""
        scores, lengths = make(2, 4), torch.tensor([4, 3])
        expected = value_and_slopes(sums.log_partition, scores, lengths)[1]
        found = value_and_slopes(sums.log_z_op, scores, lengths)[1]
        assert all(torch.allclose(a, b) for a, b in zip(expected, found, strict=True))

    def test_kept_tables_serve_two_backward_passes_and_second_derivatives(self, sums: RowSums, make: Any) -> None:
        scores = [x.requires_grad_() for x in make(2, 5) if x is not None]
        lengths = torch.tensor([5, 3])
        log_z = KEEPING[sums](*scores, None, lengths)
        wanted = torch.autograd.grad(sums.reference(*scores, None, lengths).sum(), scores, create_graph=True)
        for _ in range(2):
            found = torch.autograd.grad(log_z.sum(), scores, retain_graph=True)
            assert all(torch.allclose(a, b, atol=1e-11) for a, b in zip(found, wanted, strict=True))
        found = torch.autograd.grad(log_z.sum(), scores, create_graph=True)
        second = [torch.autograd.grad(x[0].square().sum(), scores[1], retain_graph=True)[0] for x in (found, wanted)]
        assert torch.allclose(*second, atol=1e-11)

    def test_a_score_changed_before_the_backward_pass_is_noticed(self, sums: RowSums, make: Any) -> None:
        scores = [x.requires_grad_() for x in make(2, 5) if x is not None]
        log_z = KEEPING[sums](*scores, None, torch.tensor([5, 3]))
        with torch.no_grad():
            scores[1].add_(1.0)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            log_z.sum().backward()

    def test_backward_keeps_only_the_chart(self, sums: RowSums, make: Any) -> None:
        scores = make(3, 10)
        inputs = [None if x is None else x.requires_grad_() for x in scores]
        mine = {x.untyped_storage().data_ptr() for x in inputs if x is not None}
        with kept_for_backward() as sizes:
            sums.log_partition(*inputs, torch.tensor([10, 10, 7])).sum().backward()
        assert sum(size for at, size in sizes.items() if at not in mine) <= 3 * 55 * (N + 1) * 8 + 100


def grammars(scale: float = 1.0) -> list[PCFG | LowRankPCFG]:
    lengths = torch.arange(6) + 4
    words, rules, roots, _ = dense(6, 9, scale=scale)
    low = low_rank(6, 9, scale=scale)
    matrices = [x[0] for x in low[1:5]]  # type: ignore[index]
    return [PCFG(words, rules[0], roots[0], lengths=lengths), LowRankPCFG(low[0], *matrices, lengths=lengths)]  # type: ignore


def test_threads_split_the_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    from catena.kernels.common import threads

    monkeypatch.setattr(threads, "WORTH_A_THREAD", 1)
    for grammar in grammars():
        answers = []
        try:
            for n in (1, 2):
                torch.set_num_threads(n)
                drawn_parses = grammar.sample(3, torch.Generator().manual_seed(1))
                answers.append((grammar.log_partition(), grammar.marginals(), grammar.argmax(), drawn_parses))
        finally:
            torch.set_num_threads(1)
        assert all(torch.allclose(a, b) for a, b in zip(*answers, strict=True))


@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_samples_of_long_sentences_agree_with_the_marginals(scale: float) -> None:
    for grammar in grammars(scale):
        marginals = grammar.marginals()
        drawn_parses = grammar.sample(600, torch.Generator().manual_seed(3))
        assert grammar.log_prob(drawn_parses).isfinite().all()
        often = grammar.parts(drawn_parses).mean(0)
        spread = (marginals * (1 - marginals).clamp_min(0) / 600).sqrt()
        assert ((often - marginals).abs() <= 5 * spread + 3 / 600).all()  # rare ones come by threes at most


def test_the_best_of_long_sentences_are_the_best_of_many_samples() -> None:
    for grammar in grammars(0.3):
        drawn_parses = grammar.sample(300, torch.Generator().manual_seed(4))
        assert (grammar.score(grammar.argmax()) >= grammar.score(drawn_parses).amax(0)).all()


def test_k_best_begin_with_the_best_and_decrease() -> None:
    grammar = grammars()[0]
    found = grammar.topk(12)
    assert torch.allclose(found.scores[0], grammar.max())
    assert (found.scores[:-1] >= found.scores[1:] - 1e-12).all()
    assert len({tuple(x.flatten().tolist()) for x in found.structures[:, 0]}) == 12


def test_searches_pass_opcheck() -> None:
    rules = ("test_schema", "test_faketensor")
    scores, lengths = dense(2, 3), torch.tensor([3, 2])
    torch.library.opcheck(best.overload, (*scores, lengths), test_utils=rules)
    torch.library.opcheck(top.overload, (*scores, lengths, 2), test_utils=rules)


@pytest.mark.parametrize("spans", [False, True])
def test_small_batch_of_float32_equals_the_general_program(spans: bool) -> None:
    scores = [None if x is None else x.float() for x in dense(3, 6, spans=spans)]
    lengths = torch.tensor([6, 1, 4])
    words, rules, roots, by_spans = scores
    assert SmallChart.solve(words, rules, roots, by_spans, lengths.numpy()) is not None
    expected, expected_slopes = value_and_slopes(SUMS.log_partition, scores, lengths)
    found, gradients = value_and_slopes(log_partition, scores, lengths)
    assert torch.allclose(expected, found)
    for a, b in zip(expected_slopes, gradients, strict=True):
        assert b.dtype == torch.float32
        assert torch.allclose(a, b, atol=1e-6)


@pytest.mark.parametrize("which", range(4))
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_small_batch_leaves_scores_out_of_range_to_the_general_program(which: int, bad: float) -> None:
    scores = dense(2, 4, spans=True)
    value = scores[which]
    assert value is not None
    if bad == -math.inf and which == 2:
        value[:] = bad
    elif which == 3:
        value[1, 0, 2, 1] = bad
    else:
        value[0, 1] = bad
    words, rules, roots, by_spans = scores
    assert SmallChart.solve(words, rules, roots, by_spans, torch.tensor([4, 4]).numpy()) is None
