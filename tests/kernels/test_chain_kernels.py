"""The kernels of chains where the range of their floats ends: they must notice, and go on with more."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from catena.errors import DataError
from catena.kernels.chain import arrays
from catena.kernels.chain import ops as kernels
from catena.kernels.chain import ops_score as chain_score
from catena.kernels.chain import ops_search as chain_search
from catena.kernels.chain.arrays import Chains
from catena.kernels.chain.cpu import BOTH_WAYS
from catena.kernels.common import threads
from catena.kernels.common.ops import TorchOperator
from catena.structure.backend import use_backend
from catena.structure.chain import LinearChain
from catena.structure.constraints import ChainConstraint


def both(chain: LinearChain) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """log Z and marginals by the kernels in the chain's dtype, and by the reference in float64."""
    wide = chain.with_score_tensors([x if x is None else x.double() for x in chain.score_tensors()])
    with use_backend("reference"):
        expected = wide.log_partition(), wide.marginals()
    with use_backend("kernels"):
        return chain.log_partition(), chain.marginals(), *expected


def exact_rows(chain: LinearChain) -> list[bool]:
    """Which rows the kernel does in its own floats, without a rescue."""
    return Chains.of(*chain._rows()).summed(BOTH_WAYS)[4].tolist()


@pytest.mark.parametrize("tables", [1, 6])
def test_few_and_many_pairs_are_counted_the_same(tables: int, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(tables)
    shapes = ((6, 7, 3), (3, 3) if tables == 1 else (6, 3, 3))
    scores = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
    lengths = torch.tensor([7, 0, 1, 2, 5, 7])
    found = []
    for limit, backend in ((2**30, "kernels"), (0, "kernels"), (0, "reference")):
        monkeypatch.setattr(arrays, "FEW_PAIRS", limit)
        with use_backend(backend):
            chain = LinearChain(*scores, lengths=lengths)
            total = (chain.log_partition() * torch.arange(1.0, 7)).sum()  # every row its own weight
            found.append(torch.autograd.grad(total, scores))
    few, many, expected = found
    assert all(torch.allclose(a, b, atol=1e-12) for a, b in zip(few, expected, strict=True))
    assert all(torch.allclose(a, b, atol=1e-12) for a, b in zip(many, expected, strict=True))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
class TestRescue:
    def test_best_path_may_begin_as_the_worst(self, dtype: torch.dtype) -> None:
        # Tag 1 is hopeless until the end forbids tag 0: a sum that has dropped tag 1 by then is lost.
        emissions = torch.tensor([[0, -9800.0], [0, 0], [0, 0], [-math.inf, 9800.0]], dtype=dtype)
        stay = torch.tensor([[0, -math.inf], [-math.inf, 0]], dtype=dtype)
        chain = LinearChain(emissions, stay)
        assert chain.log_partition().item() == 0
        assert chain.marginals()[:, 1].tolist() == [1, 1, 1, 1]
        assert exact_rows(chain) == [False]

    def test_middle_decides_if_both_ends_underflow(self, dtype: torch.dtype) -> None:
        # Forwards the path is lost at its beginning, backwards at its end; only its middle makes it the best.
        emissions = torch.zeros(4, 3, dtype=dtype)
        emissions[0, 1] = emissions[3, 2] = -2000.0
        moves = torch.tensor([[0, -2000.0, -2000.0], [-2000.0, -2000.0, 6000.0], [-2000.0, -2000.0, 0]], dtype=dtype)
        log_z, chances, expected, expected_chances = both(LinearChain(emissions, moves))
        assert log_z.item() == pytest.approx(expected.item(), rel=1e-6)
        assert (chances - expected_chances).abs().max() < 1e-3

    @pytest.mark.parametrize("spread", [3.0, 30.0, 300.0, 3e4])
    def test_hard_constraints_under_wide_emissions(self, dtype: torch.dtype, spread: float) -> None:
        torch.manual_seed(1)
        rules = ChainConstraint.scheme(("O", "B-X", "I-X", "B-Y", "I-Y"), "bio")
        chain = LinearChain(
            torch.randn(8, 12, 5, dtype=dtype) * spread, torch.randn(5, 5, dtype=dtype), constraint=rules
        )
        log_z, chances, expected, expected_chances = both(chain)
        eps = torch.finfo(dtype).eps
        assert (log_z - expected).abs().max() <= 40 * eps * expected.abs().max()
        assert (chances - expected_chances).abs().max() <= 200 * eps * max(1.0, spread)

    def test_gradients_of_rescued_rows_are_merged_with_the_others(self, dtype: torch.dtype) -> None:
        torch.manual_seed(2)
        emissions = torch.randn(6, 5, 4, dtype=dtype)
        emissions[1::2] *= 2000
        moves = torch.randn(4, 4, dtype=dtype).masked_fill(torch.rand(4, 4) < 0.4, -math.inf).fill_diagonal_(0.5)
        moves.requires_grad_()
        weights = torch.rand(6, dtype=dtype)
        (LinearChain(emissions, moves).log_partition() * weights).sum().backward()
        found, moves.grad = moves.grad, None
        assert exact_rows(LinearChain(emissions, moves.detach())) != [True] * 6
        with use_backend("reference"):
            (LinearChain(emissions.double(), moves.double()).log_partition() * weights).sum().backward()
        assert moves.grad is not None
        assert found is not None
        assert (found - moves.grad).abs().max() < 4e4 * torch.finfo(dtype).eps  # scores add up to 1e4

    def test_soft_transitions_never_need_a_rescue(self, dtype: torch.dtype) -> None:
        torch.manual_seed(3)
        chain = LinearChain(torch.randn(4, 30, 6, dtype=dtype) * 1e4, torch.randn(6, 6, dtype=dtype) * 3)
        assert exact_rows(chain) == [True] * 4

    def test_tags_out_of_reach_do_not_cause_one(self, dtype: torch.dtype) -> None:
        # From left to right: tag q cannot be reached before position q, which is not an underflow.
        moves = torch.full((6, 6), -math.inf, dtype=dtype)
        for q in range(6):
            moves[q, q : q + 2] = 0.0
        start = torch.tensor([0.0] + [-math.inf] * 5, dtype=dtype)
        chain = LinearChain(torch.randn(3, 9, 6, dtype=dtype), moves, start)
        assert exact_rows(chain) == [True] * 3
        log_z, chances, expected, expected_chances = both(chain)
        assert (log_z - expected).abs().max() < 1e-5
        assert (chances - expected_chances).abs().max() < 1e-5

    def test_tags_that_the_data_forbid_before_do_not_cause_one(self, dtype: torch.dtype) -> None:
        known = torch.tensor([[0, -1, 0, -1, -1], [-1, 0, -1, 0, -1]])
        rules = ChainConstraint.scheme(("O", "B-X", "I-X"), "bio") & ChainConstraint.partial(known, 3)
        chain = LinearChain(torch.randn(2, 5, 3, dtype=dtype), constraint=rules)
        assert exact_rows(chain) == [True] * 2


def test_float32_error_is_within_rounding() -> None:
    # The usual recursion over log-sum-exps loses 1e-3 in log Z and in marginals here: its sums grow with the length.
    torch.manual_seed(4)
    chain = LinearChain(torch.randn(2, 512, 32) * 3, torch.randn(32, 32))
    log_z, chances, expected, expected_chances = both(chain)
    assert (log_z - expected).abs().max() < 1e-3  # one unit in the last place of 2000 is 1.2e-4
    assert (chances - expected_chances).abs().max() < 5e-6


def test_nan_scores_give_nan() -> None:
    emissions = torch.randn(2, 4, 3)
    emissions[0, 2, 1] = math.nan
    log_z = LinearChain(emissions, torch.randn(3, 3)).log_partition()
    assert log_z.isnan().tolist() == [True, False]


def test_unknown_tag_raises() -> None:
    with pytest.raises(DataError, match="Tags must be below k = 3, got 7"):
        LinearChain(torch.zeros(2, 3)).log_prob(torch.tensor([0, 7]))
    beyond = LinearChain(torch.zeros(1, 3, 2), lengths=torch.tensor([2])).log_prob(torch.tensor([[0, 1, 99]]))
    assert beyond.item() == pytest.approx(-2 * math.log(2))


def test_rows_are_the_same_on_any_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    chain = LinearChain(torch.randn(13, 9, 5), torch.randn(5, 5), lengths=torch.arange(13) % 9 + 1)
    one = chain.log_partition(), chain.marginals(), chain.argmax(), chain.topk(3).structures
    monkeypatch.setattr(threads, "WORTH_A_THREAD", 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    three = chain.log_partition(), chain.marginals(), chain.argmax(), chain.topk(3).structures
    assert all(torch.allclose(a, b, rtol=1e-6) for a, b in zip(one, three, strict=True))


def test_an_error_in_a_thread_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)

    def fail(low: int, high: int) -> None:
        if low == 0:
            raise RuntimeError("from the thread")

    with pytest.raises(RuntimeError, match="from the thread"):
        threads.in_row_blocks(fail, 4, 10**9)


def test_other_strides_and_integers_are_accepted() -> None:
    emissions = torch.randn(3, 4, 5).transpose(0, 2)
    moves = torch.randn(3, 3).T
    lengths = torch.tensor([4, 2, 3, 1, 4], dtype=torch.int32)
    found = LinearChain(emissions, moves, lengths=lengths).log_partition()
    plain = LinearChain(emissions.contiguous(), moves.contiguous(), lengths=lengths.long()).log_partition()
    assert torch.equal(found, plain)


def arguments(dtype: torch.dtype = torch.float64) -> tuple[Tensor, ...]:
    shapes = ((4, 3, 2), (2, 2, 2), (2, 2), (2, 2))
    scores = (torch.randn(s, dtype=dtype, requires_grad=True) for s in shapes)
    return *scores, torch.tensor([3, 1, 2, 3])


class TestOperators:
    """torch's own checks of an operator: its schema, its shapes for tracing, its derivative."""

    def check(self, op: TorchOperator, *inputs: object) -> None:
        tests = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")
        torch.library.opcheck(op.overload, inputs, test_utils=tests)

    def test_sums(self) -> None:
        self.check(kernels.SUMS.log_z_op, *arguments())
        self.check(kernels.SUMS.keep_op, *arguments())

    def test_scores_and_log_probabilities(self) -> None:
        tags = torch.tensor([[0, 1, 1], [1, 0, 0], [0, 0, 1], [1, 1, 0]])
        self.check(chain_score._score, *arguments(), tags)
        self.check(chain_score._log_prob, *arguments(), tags)

    def test_searches(self) -> None:
        detached = tuple(x.detach() for x in arguments())
        self.check(chain_search.best, *detached)
        self.check(chain_search.top, *detached, 2)

    def test_compile_traces_through(self) -> None:
        emissions, tables, start, end, lengths = arguments()

        def loss(emissions: Tensor, tables: Tensor) -> Tensor:
            return kernels.log_partition(emissions, tables, start, end, lengths).sum()

        compiled = torch.compile(loss, backend="aot_eager", fullgraph=True)
        plain = torch.autograd.grad(loss(emissions, tables), (emissions, tables))
        traced = torch.autograd.grad(compiled(emissions, tables), (emissions, tables))
        assert all(torch.allclose(a, b) for a, b in zip(plain, traced, strict=True))


def test_second_derivative_of_log_prob() -> None:
    scores, lengths = arguments()[:4], torch.tensor([3, 1, 2, 3])
    tags = torch.tensor([[0, 1, 1], [1, 0, 0], [0, 0, 1], [1, 1, 0]])

    def log_p(*scores: Tensor) -> Tensor:
        return chain_score.log_prob(*scores, lengths, tags)

    assert torch.autograd.gradcheck(log_p, scores, fast_mode=True)
    assert torch.autograd.gradgradcheck(log_p, scores, fast_mode=True)
    weights = torch.rand(4, dtype=torch.float64, requires_grad=True)  # the derivative by what comes from above

    def weighted(weights: Tensor, *scores: Tensor) -> Tensor:
        first = torch.autograd.grad((log_p(*scores) * weights).sum(), scores, create_graph=True)
        return sum((g**2).sum() for g in first)

    assert torch.autograd.gradcheck(weighted, (weights, *scores), fast_mode=True)
