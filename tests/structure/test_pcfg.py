"""Grammars: the inherited laws for dense and low-rank rules, and further tests."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, ClassVar

import pytest
import torch

from catena.errors import ImpossibleError, ShapeError
from catena.structure.backend import use_backend
from catena.structure.base import StructuredDistribution
from catena.structure.low_rank_pcfg import LowRankPCFG
from catena.structure.pcfg import PCFG
from catena.structure.span_constraints import SpanConstraint
from tests.laws.structure_checks import agrees_in_every_semiring, numbers_of
from tests.laws.structure_laws import Case, Ids, Member, StructureLaws
from tests.laws.structure_laws import pytest_generate_laws as pytest_generate_tests  # noqa: F401
from tests.oracle.moments import log_add, probabilities
from tests.oracle.trees import all_parses, all_ranked_parses, children, keeping


def length(grammar: PCFG | LowRankPCFG, row: int) -> int:
    return grammar.words.shape[-2] if grammar.lengths is None else int(grammar.lengths[row])


def listed(grammar: PCFG, row: int) -> list[Member]:
    """All parses of one row, by the oracle."""
    return all_parses(*numbers_of(grammar.score_tensors(), grammar.ranks, row), length(grammar, row))


class GrammarLaws(StructureLaws):
    field_ranks: ClassVar = {"words": 2, "rules": 3, "roots": 1, "spans": 3, "lengths": 0}

    def members(self, structure: StructuredDistribution, row: int) -> list[Member]:
        assert isinstance(structure, PCFG)
        return listed(structure, row)

    def parts_of(self, ids: Ids) -> Iterable[tuple[int, ...]]:
        return [span[:3] for span in ids if span[0] >= 0]

    def spoiled(self, structure: StructuredDistribution) -> StructuredDistribution:
        assert isinstance(structure, PCFG | LowRankPCFG)
        assert structure.lengths is not None
        t = structure.words.shape[-2]
        places = torch.arange(t)
        words = torch.where(
            (places < structure.lengths[:, None])[..., None],
            structure.words,
            1e3 * torch.randn(structure.words.shape).double(),
        )
        spans = structure.spans
        if spans is not None:
            real = (places[:, None] < places) & (places < structure.lengths[:, None, None])
            spans = torch.where(real[..., None], spans, 1e3 * torch.randn(spans.shape).double())
        return replace(structure, words=words, spans=spans)


class LowRankLaws(GrammarLaws):
    field_ranks: ClassVar = {
        "words": 2, "parents": 2, "lefts": 2, "rights": 2, "roots": 1, "spans": 3, "rank_spans": 3, "lengths": 0,
    }  # fmt: skip

    def members(self, structure: StructuredDistribution, row: int) -> list[Member]:
        assert isinstance(structure, LowRankPCFG)
        scores = numbers_of(structure.score_tensors(), structure.ranks, row)
        words, parents, lefts, rights, roots, spans, rank_spans = scores
        n = length(structure, row)
        return all_ranked_parses(words, parents, lefts, rights, roots, spans, rank_spans, n)


class TestSharedRules(GrammarLaws):
    def structure(self, case: Case) -> PCFG:
        return PCFG(
            case.draw(4, 4, 2), case.draw(2, 4, 4, salt=1), case.draw(4, salt=2), lengths=torch.tensor([4, 1, 3, 2])
        )


class TestRulesOfEachSentenceAndSpans(GrammarLaws):
    def structure(self, case: Case) -> PCFG:
        return PCFG(
            case.draw(4, 4, 1), case.draw(4, 2, 3, 3, salt=1), case.draw(4, 2, salt=2), case.draw(4, 4, 4, 2, salt=3),
            lengths=torch.tensor([4, 3, 2, 4]),
        )  # fmt: skip


class TestLowRank(LowRankLaws):
    def structure(self, case: Case) -> LowRankPCFG:
        return LowRankPCFG(
            case.draw(4, 3, 2), case.draw(2, 2, salt=1), case.draw(2, 4, salt=2), case.draw(2, 4, salt=3),
            case.draw(4, salt=4), lengths=torch.tensor([3, 1, 3, 2]),
        )  # fmt: skip


class TestLowRankOfEachSentenceAndSpans(LowRankLaws):
    def structure(self, case: Case) -> LowRankPCFG:
        return LowRankPCFG(
            case.draw(4, 4, 1), case.draw(4, 1, 2, salt=1), case.draw(2, 2, salt=2), case.draw(4, 2, 2, salt=3),
            case.draw(4, 1, salt=4), case.draw(4, 4, 4, 1, salt=5), lengths=torch.tensor([4, 3, 2, 4]),
        )  # fmt: skip


class TestRanksOverSpans(LowRankLaws):
    backends: ClassVar = ("reference",)

    def structure(self, case: Case) -> LowRankPCFG:
        return LowRankPCFG(
            case.draw(4, 3, 2), case.draw(1, 2, salt=1), case.draw(4, 2, 3, salt=2), case.draw(2, 3, salt=3),
            case.draw(3, salt=4), None, case.draw(4, 3, 3, 2, salt=5), torch.tensor([3, 1, 3, 2]),
        )  # fmt: skip


def small(**changes: object) -> PCFG:
    case = Case(seed=31)
    grammar = PCFG(case.draw(2, 4, 2), case.draw(2, 4, 4, salt=1), case.draw(4, salt=2))
    return replace(grammar, **changes)  # type: ignore[arg-type]


def small_low_rank(**changes: object) -> LowRankPCFG:
    case = Case(seed=32)
    matrices = (case.draw(2, 3, salt=1), case.draw(3, 4, salt=2), case.draw(3, 4, salt=3))
    return replace(LowRankPCFG(case.draw(2, 4, 2), *matrices, case.draw(4, salt=4)), **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("backend", ["reference", "kernels"])
class TestParses:
    @pytest.mark.parametrize("make", [small, small_low_rank])
    def test_empty_sentence_has_no_parse(self, backend: str, make: Callable[..., Any]) -> None:
        with use_backend(backend):
            grammar = make(lengths=torch.tensor([0, 4]))
            assert grammar.log_partition()[0] == -math.inf
            assert grammar.log_partition()[1].isfinite()
            assert (grammar.argmax()[0] == -1).all()
            assert (grammar.marginals()[0] == 0).all()
            assert grammar.topk(2).scores[:, 0].tolist() == [-math.inf, -math.inf]
            assert (grammar.sample(2)[:, 0] == -1).all()
            assert make(lengths=torch.tensor([0, 0])).log_partition().tolist() == [-math.inf, -math.inf]

    @pytest.mark.parametrize("make", [small, small_low_rank])
    def test_one_word_has_a_parse_if_preterminals_may_be_roots(self, backend: str, make: Callable[..., Any]) -> None:
        grammar = make(lengths=torch.tensor([1, 1]))
        with use_backend(backend):
            expected = (grammar.words[:, 0] + grammar.roots[2:]).logsumexp(-1)
            assert torch.allclose(grammar.log_partition(), expected)
            without = replace(grammar, roots=grammar.roots[:2])
            assert without.log_partition().tolist() == [-math.inf, -math.inf]

    def test_rule_counts_of_topk_are_separate(self, backend: str) -> None:
        """torch-struct's SentCFG.topk gives the sum of their rule counts."""
        with use_backend(backend):
            grammar = small()
            top = grammar.topk(3)
        counts = grammar.rule_counts(top.structures)
        assert counts.sum((-3, -2, -1)).tolist() == [[3, 3]] * 3
        for row in range(2):
            ranked = sorted(listed(grammar, row), key=lambda member: -member[1])
            for n in range(3):
                expected = torch.zeros(2, 4, 4).double()
                spans = ranked[n][0]
                for at, (i, j, a) in enumerate(spans):
                    if i < j:
                        left, right = children([(x, y) for x, y, _ in spans], at)
                        expected[a, spans[left][2], spans[right][2]] += 1
                assert torch.equal(counts[n, row], expected)

    def test_samples_are_valid_parses(self, backend: str) -> None:
        """torch-struct's SentCFG.sample raises."""
        with use_backend(backend):
            grammar = small(lengths=torch.tensor([4, 2]))
            drawn = grammar.sample(5, torch.Generator().manual_seed(1))
            assert grammar.log_prob(drawn).isfinite().all()
        assert grammar.parts(drawn).sum((-3, -2, -1)).tolist() == [[7, 3]] * 5

    def test_expected_rules_equal_enumeration(self, backend: str) -> None:
        grammar = small(lengths=torch.tensor([4, 3]))
        with use_backend(backend):
            found = grammar.expected_rules()
        for row in range(2):
            members = listed(grammar, row)
            ids = torch.tensor([rows for rows, _ in members])
            chances = torch.tensor(probabilities([score for _, score in members]), dtype=torch.float64)
            expected = (chances[:, None, None, None] * grammar.rule_counts(ids)).sum(0)
            assert (found[row] - expected).abs().max() < 1e-12

    def test_gradients_with_minus_infinity_scores_are_finite(self, backend: str) -> None:
        rules = torch.randn(3, 5, 5).masked_fill(torch.rand(3, 5, 5) < 0.5, -math.inf).requires_grad_()
        words = torch.randn(2, 6, 2)
        words[:, ::2, 0] = -math.inf
        with use_backend(backend):
            log_z = PCFG(words, rules, torch.zeros(3), lengths=torch.tensor([6, 1])).log_partition()
        (gradients,) = torch.autograd.grad(log_z.sum(), rules)
        assert log_z[0].isfinite()
        assert log_z[1] == -math.inf
        assert not gradients.isnan().any()
        assert (gradients[rules == -math.inf] == 0).all()
        assert gradients.sum().item() == pytest.approx(5, abs=1e-4)

    def test_of_one_kind_counts_bracketings(self, backend: str) -> None:
        """S -> S S | w: the likelihood is the number of bracketings."""
        nothing = torch.zeros(1, 1, 1).double()
        with use_backend(backend):
            grammar = PCFG.of_one_kind(torch.zeros(5, 1).double(), nothing, nothing[0, 0])
            assert grammar.log_partition().exp().item() == pytest.approx(14)
            one = PCFG.of_one_kind(torch.zeros(1, 1).double(), nothing, nothing[0, 0])
            assert one.log_partition().item() == 0

    def test_dense_equals_low_rank_distribution(self, backend: str) -> None:
        grammar = small_low_rank(lengths=torch.tensor([4, 3]))
        with use_backend(backend):
            dense = grammar.dense()
            assert torch.allclose(grammar.log_partition(), dense.log_partition())
            assert torch.allclose(grammar.marginals(), dense.marginals())
            best = dense.argmax()
            unranked = torch.cat((best, torch.full_like(best[..., :1], -1)), dim=-1)
            assert torch.allclose(grammar.log_prob(unranked), dense.log_prob(best))
            ranks = grammar.rank_marginals()
        longer = dense.marginals()[..., :2].sum(-1)
        assert torch.allclose(ranks.sum(-1), longer)


class TestScores:
    @pytest.mark.parametrize(
        ("spans", "fault"),
        [
            ([[0, 2, 0], [0, 1, 1], [0, 0, 2], [1, 1, 2], [2, 2, 1]], "a nonterminal over one word"),
            ([[0, 2, 0], [0, 1, 2], [0, 0, 2], [1, 1, 2], [2, 2, 3]], "a preterminal over two words"),
            ([[0, 2, 0], [0, 1, 1], [0, 0, 2], [1, 1, 2], [2, 2, 4]], "no such symbol"),
            ([[0, 2, 0], [0, 1, 1], [0, 0, 2], [1, 1, 2], [1, 2, 1]], "crossing"),
            ([[-1, -1, -1]] * 5, "nothing"),
        ],
    )
    def test_score_of_invalid_parse_is_minus_infinity(self, spans: list[list[int]], fault: str) -> None:
        grammar = PCFG(torch.zeros(3, 2), torch.zeros(2, 4, 4), torch.zeros(4))
        whole = torch.tensor([[0, 2, 0], [0, 1, 1], [0, 0, 2], [1, 1, 2], [2, 2, 3]])
        assert grammar.score(whole) == 0
        assert grammar.score(whole.flip(0)) == 0
        assert grammar.score(torch.tensor(spans)) == -math.inf, fault
        low_rank = LowRankPCFG(
            torch.zeros(3, 2), torch.zeros(2, 3), torch.zeros(3, 4), torch.zeros(3, 4), torch.zeros(4)
        )
        ranked = torch.cat((whole, torch.tensor([[0], [2], [-1], [-1], [-1]])), dim=-1)
        assert low_rank.score(ranked) == 0
        assert low_rank.score(ranked + torch.tensor([0, 0, 0, 1])) == -math.inf

    @pytest.mark.parametrize(
        ("name", "shape"),
        [("rules", (2, 4, 3)), ("rules", (3, 2, 4, 4)), ("roots", (3,)), ("roots", (5, 2)), ("spans", (4, 4, 3)),
         ("lengths", (3,))],
    )  # fmt: skip
    def test_wrong_shape_raises_error_with_tensor_name(self, name: str, shape: tuple[int, ...]) -> None:
        with pytest.raises((ShapeError, TypeError), match=name):
            small(**{name: torch.ones(shape, dtype=torch.int64 if name == "lengths" else torch.float64)})

    @pytest.mark.parametrize(
        ("name", "shape", "named"),
        [
            ("parents", (2, 4), "parents|lefts"),  # a rank of 4 is valid on its own, but not with these lefts
            ("lefts", (3, 3), "lefts"),
            ("rank_spans", (4, 4, 2), "rank_spans"),
        ],
    )
    def test_low_rank_wrong_shape_raises_error_with_tensor_name(
        self, name: str, shape: tuple[int, ...], named: str
    ) -> None:
        with pytest.raises((ShapeError, TypeError), match=named):
            small_low_rank(**{name: torch.ones(shape, dtype=torch.float64)})

    def test_value_not_shaped_like_marginals_raises(self) -> None:
        with pytest.raises(ShapeError, match=r"must end in the axes \[t, t, s\] = \[4, 4, 4\]"):
            small().expectation(torch.zeros(4, 4, 2))
        with pytest.raises(ShapeError, match="at least 1 nonterminal, got"):
            PCFG(torch.zeros(0, 2), torch.zeros(1, 3, 3), torch.zeros(1))
        with pytest.raises(ValueError, match="rank_spans has no dense form"):
            small_low_rank(rank_spans=torch.zeros(4, 4, 3).double()).dense()


class TestConstraints:
    @pytest.mark.parametrize("make", [small, small_low_rank])
    def test_brackets_and_forbidding_condition_parses(self, make: Callable[..., Any]) -> None:
        grammar = make()
        allowed = SpanConstraint.brackets(torch.tensor([[1, 3]]), 4) & SpanConstraint.forbidding(
            torch.tensor([[1, 2]]), 4
        )
        given = grammar.given(allowed)
        dense = grammar if isinstance(grammar, PCFG) else grammar.dense()
        for row in range(2):
            kept = keeping(listed(dense, row), lambda spans: (1, 3) in spans and (1, 2) not in spans)
            assert given.log_partition()[row].item() == pytest.approx(log_add([s for _, s in kept]), abs=1e-12)
        for spans in given.sample(20).flatten(0, 1).tolist():
            assert [1, 3] in [row[:2] for row in spans]

    def test_span_constraint_fixes_symbols(self) -> None:
        grammar = small()
        given = grammar.given(SpanConstraint.brackets(torch.tensor([[1, 3, 1], [2, 2, 3]]), 4, k=4))
        for row in range(2):
            kept = [s for ids, s in listed(grammar, row) if (1, 3, 1) in ids and (2, 2, 3) in ids]
            assert given.log_partition()[row].item() == pytest.approx(log_add(kept), abs=1e-12)

    def test_infeasible_constraint_raises_or_gives_minus_infinity(self) -> None:
        crossing = SpanConstraint.brackets(torch.tensor([[0, 2], [1, 3]]), 4)
        with pytest.raises(ImpossibleError, match="allows no structure for 2 of 2 distributions"):
            small(constraint=crossing)
        assert small(constraint=crossing, on_infeasible="-inf").log_partition().tolist() == [-math.inf, -math.inf]


def test_reference_program_agrees_in_every_semiring() -> None:
    agrees_in_every_semiring(small(), replace(small(), words=Case(seed=9).draw(2, 4, 2)), [5 * 2**7] * 2)
    agrees_in_every_semiring(small_low_rank(), small_low_rank(), [5 * 2**7 * 3**3] * 2)


@pytest.mark.parametrize("backend", ["auto", "reference"])
def test_shared_span_scores_equal_expanded_ones(backend: str) -> None:
    draw, lengths = Case(seed=4).draw, torch.tensor([4, 3])
    dense = PCFG(draw(2, 4, 2), draw(2, 4, 4), draw(4), draw(4, 4, 2), lengths)
    low_rank = LowRankPCFG(
        draw(2, 4, 2), draw(2, 3), draw(3, 4), draw(3, 4), draw(4), draw(4, 4, 2), draw(1, 4, 4, 3), lengths=lengths
    )
    with use_backend(backend):
        for grammar in (dense, low_rank):
            each = grammar._spread_over(grammar.batch_shape)
            assert torch.allclose(grammar.marginals(), each.marginals())
            assert torch.equal(grammar.argmax(), each.argmax())
            assert torch.equal(grammar.topk(3).structures, each.topk(3).structures)
        assert torch.allclose(low_rank.rank_marginals(), low_rank._spread_over(torch.Size((2,))).rank_marginals())
