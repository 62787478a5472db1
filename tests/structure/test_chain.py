"""Linear chains: the inherited laws and further tests."""

from __future__ import annotations

import itertools
import math
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from typing import ClassVar

import pytest
import torch

from catena.errors import ConfigError, ImpossibleError, ShapeError
from catena.structure.backend import use_backend
from catena.structure.base import StructuredDistribution
from catena.structure.chain import LinearChain
from catena.structure.constraints import ChainConstraint
from catena.structure.semirings import ExpectationSemiring
from tests.laws.structure_checks import agrees_in_every_semiring, first_row_is_empty, numbers_of
from tests.laws.structure_laws import FEW_CASES, Case, Ids, Member, StructureLaws
from tests.laws.structure_laws import pytest_generate_laws as pytest_generate_tests  # noqa: F401
from tests.oracle.chains import all_chains
from tests.oracle.moments import covariance, expectation, log_add, probabilities

LENGTHS = torch.tensor([4, 1, 3, 2])


def listed(chain: LinearChain, row: int) -> list[Member]:
    """All sequences of one row, by the oracle."""
    lengths = chain.emissions.shape[-2] if chain.lengths is None else int(chain.lengths[row])
    real = [i < lengths for i in range(chain.emissions.shape[-2])]
    if chain.mask is not None:
        real = [a and b for a, b in zip(real, chain.mask[row].tolist(), strict=True)]
    tensors = (chain.emissions, chain.transitions, chain.start, chain.end, chain.steps)
    return all_chains(*numbers_of(tensors, chain.ranks, row), real)


class ChainLaws(StructureLaws):
    field_ranks: ClassVar = {
        "emissions": 2,
        "transitions": 2,
        "start": 1,
        "end": 1,
        "steps": 3,
        "lengths": 0,
        "mask": 1,
    }

    def members(self, structure: StructuredDistribution, row: int) -> list[Member]:
        assert isinstance(structure, LinearChain)
        return listed(structure, row)

    def parts_of(self, ids: Ids) -> Iterable[tuple[int, ...]]:
        return [(i, q) for i, q in enumerate(ids) if q >= 0]

    def spoiled(self, structure: StructuredDistribution) -> StructuredDistribution:
        assert isinstance(structure, LinearChain)
        real = structure.real()
        emissions = torch.where(
            real[..., None], structure.emissions, 1e3 * torch.randn(structure.emissions.shape).double()
        )
        steps = structure.steps
        if steps is not None:
            steps = torch.where(real[..., None, None], steps, 1e3 * torch.randn(steps.shape).double())
        return replace(structure, emissions=emissions, steps=steps)


class TestSharedTransitions(ChainLaws):
    def structure(self, case: Case) -> LinearChain:
        return LinearChain(
            case.draw(4, 4, 3),
            case.draw(3, 3, salt=1),
            case.draw(3, salt=2),
            case.draw(3, salt=3),
            lengths=LENGTHS,
        )


class TestStepScores(ChainLaws):
    cases = FEW_CASES

    def structure(self, case: Case) -> LinearChain:
        return LinearChain(case.draw(4, 4, 3), steps=case.draw(4, 4, 3, 3, salt=1), lengths=LENGTHS)


class TestEverythingAtOnceWithHoles(ChainLaws):
    def structure(self, case: Case) -> LinearChain:
        holes = torch.tensor([[1, 1, 1, 1, 1], [0, 1, 0, 0, 0], [1, 0, 0, 1, 1], [0, 1, 0, 1, 0]]).bool()
        return LinearChain(
            case.draw(4, 5, 2), case.draw(4, 2, 2, salt=1), case.draw(2, salt=2), case.draw(4, 2, salt=3),
            case.draw(4, 5, 2, 2, salt=4), mask=holes, lengths=torch.tensor([5, 5, 4, 5]),
        )  # fmt: skip


class TestTagsAlone(ChainLaws):
    cases = FEW_CASES

    def structure(self, case: Case) -> LinearChain:
        return LinearChain(case.draw(4, 3, 3), lengths=torch.tensor([3, 1, 2, 3]))


def small(**changes: object) -> LinearChain:
    case = Case(seed=31)
    chain = LinearChain(case.draw(2, 4, 3), case.draw(3, 3, salt=1), case.draw(3, salt=2), case.draw(3, salt=3))
    return replace(chain, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("backend", ["reference", "kernels"])
class TestPairs:
    def test_pair_marginals_equal_enumeration(self, backend: str) -> None:
        mask = torch.tensor([[True, False, True, True], [False, True, True, False]])
        with use_backend(backend):
            for chain in (small(), small(mask=mask), small(steps=Case(seed=5).draw(2, 4, 3, 3))):
                found = chain.pair_marginals()
                for row in range(2):
                    members = listed(chain, row)
                    expected = torch.zeros(4, 3, 3, dtype=torch.float64)
                    for (tags, _), p in zip(members, probabilities([s for _, s in members]), strict=True):
                        places = [i for i, q in enumerate(tags) if q >= 0]
                        for i, j in itertools.pairwise(places):
                            expected[j, tags[i], tags[j]] += p
                    assert (found[row] - expected).abs().max() < 1e-12

    def test_pairs_have_the_shape_of_pair_marginals(self, backend: str) -> None:
        chain = small(mask=torch.tensor([[True, False, True, True], [False, True, True, False]]))
        tags = torch.tensor([[2, -1, 0, 1], [-1, 1, 1, -1]])
        assert chain.pairs(tags).nonzero().tolist() == [[0, 2, 2, 0], [0, 3, 0, 1], [1, 2, 1, 1]]
        assert chain.pairs(tags).shape == chain.pair_marginals().shape

    def test_expectation_of_transitions_that_the_chain_lacks(self, backend: str) -> None:
        chain = LinearChain(Case(seed=1).draw(2, 4, 3))
        switches = LinearChain(torch.zeros(2, 4, 3).double(), 1 - torch.eye(3, dtype=torch.float64))
        with use_backend(backend):
            mean, variance = chain.expectation(switches), chain.variance(switches)
        for row in range(2):
            scores, counts = ([s for _, s in listed(c, row)] for c in (chain, switches))
            assert mean[row].item() == pytest.approx(expectation(scores, counts), abs=1e-12)
            assert variance[row].item() == pytest.approx(covariance(scores, counts, counts), abs=1e-12)

    def test_from_steps_reads_row_zero_at_the_first_position(self, backend: str) -> None:
        scores = Case(seed=8).draw(2, 3, 2, 2)
        with use_backend(backend):
            found = LinearChain.from_steps(scores, torch.tensor([3, 2])).log_partition()
        for row, n in ((0, 3), (1, 2)):
            table = scores[row].tolist()
            expected = [
                table[0][0][tags[0]] + sum(table[i][tags[i - 1]][tags[i]] for i in range(1, n))
                for tags in itertools.product(range(2), repeat=n)
            ]
            assert found[row].item() == pytest.approx(log_add(expected), abs=1e-12)

    def test_hmm_log_partition_is_likelihood_of_observations(self, backend: str) -> None:
        start, move, show = (
            Case(seed=4).draw(*s, salt=n).log_softmax(-1) for n, s in enumerate([(2,), (2, 2), (2, 3)])
        )
        seen = torch.tensor([[0, 2, 1], [1, 1, 9]])  # 9 is padding and is not read
        with use_backend(backend):
            hmm = LinearChain.hmm(start, move, show, seen, lengths=torch.tensor([3, 2]))
            log_z = hmm.log_partition()
        for row, n in ((0, 3), (1, 2)):
            paths = [
                float(start[y[0]])
                + sum(float(show[y[i], seen[row, i]]) for i in range(n))
                + sum(float(move[y[i - 1], y[i]]) for i in range(1, n))
                for y in itertools.product(range(2), repeat=n)
            ]
            assert log_z[row].item() == pytest.approx(log_add(paths), abs=1e-12)

    def test_empty_sequence_has_one_structure_of_score_zero(self, backend: str) -> None:
        with use_backend(backend):
            chain = small(lengths=torch.tensor([0, 4]))
            first_row_is_empty(chain)

    def test_empty_batch_gives_empty_results(self, backend: str) -> None:
        with use_backend(backend):
            chain = small(emissions=torch.zeros(0, 4, 3).double())
            assert chain.log_partition().shape == (0,)
            assert chain.marginals().shape == (0, 4, 3)
            assert chain.argmax().shape == (0, 4)
            assert chain.sample(2).shape == (2, 0, 4)


class TestShapes:
    @pytest.mark.parametrize(
        ("name", "shape"),
        [("transitions", (2, 2)), ("transitions", (3, 3, 3)), ("start", (4,)), ("end", (5, 3)),
         ("steps", (3, 3, 3)), ("lengths", (3,)), ("mask", (2, 3))],
    )  # fmt: skip
    def test_wrong_shape_raises_error_with_tensor_name(self, name: str, shape: tuple[int, ...]) -> None:
        kinds = {"lengths": torch.int64, "mask": torch.bool}
        with pytest.raises((ShapeError, TypeError), match=name):  # beartype's error comes first under the import hook
            small(**{name: torch.ones(shape, dtype=kinds.get(name, torch.float64))})

    def test_value_of_wrong_shape_raises(self) -> None:
        with pytest.raises(ShapeError, match=r"must end in the axes \[t, k\] = \[4, 3\]"):
            small().expectation(torch.zeros(3, 3))
        with pytest.raises(ShapeError, match="at least one position and one tag"):
            LinearChain(torch.zeros(2, 0, 3))


class TestConstraints:
    labels = ("O", "B-X", "I-X", "B-Y", "I-Y")

    def brute(self, chain: LinearChain, row: int, keep) -> float:
        return log_add([s for tags, s in listed(chain, row) if keep([self.labels[q] for q in tags if q >= 0])])

    def valid_bio(self, labels: list[str]) -> bool:
        return all(
            not label.startswith("I") or (i > 0 and labels[i - 1] in ("B" + label[1:], label))
            for i, label in enumerate(labels)
        )

    def test_bio_scheme_conditions_the_distribution(self) -> None:
        case = Case(seed=2)
        chain = LinearChain(case.draw(2, 4, 5), case.draw(5, 5, salt=1), lengths=torch.tensor([4, 2]))
        valid = chain.given(ChainConstraint.scheme(self.labels, "bio"))
        for row in range(2):
            expected = self.brute(chain, row, self.valid_bio)
            assert valid.log_partition()[row].item() == pytest.approx(expected, abs=1e-12)
        for tags in valid.sample(50).flatten(0, 1).tolist():
            assert self.valid_bio([self.labels[q] for q in tags if q >= 0])
        best = [self.labels[q] for q in valid.argmax()[0].tolist()]
        assert self.valid_bio(best)

    def test_bilou_scheme_conditions_the_distribution(self) -> None:
        labels = ("O", "B-X", "I-X", "L-X", "U-X")
        chain = LinearChain(torch.zeros(3, 5).double(), constraint=ChainConstraint.scheme(labels, "bilou"))
        found = {"".join(labels[q][0] for q in tags) for tags in chain.sample(400).tolist()}
        inside = {"OOO", "UOO", "OUO", "OOU", "UUO", "UOU", "OUU", "UUU", "BLO", "OBL", "BLU", "UBL", "BIL"}
        assert found == inside
        assert chain.log_partition().exp().item() == pytest.approx(len(inside))
        other = ChainConstraint.scheme(("O", "B-X", "M-X", "E-X", "S-X"), "bilou")
        expected = ChainConstraint.scheme(labels, "bilou")
        assert torch.equal(other.transitions, expected.transitions)  # type: ignore[arg-type]

    def test_scheme_forbids_change_of_type_inside_a_span(self) -> None:
        allowed = ChainConstraint.scheme(("B-X", "L-X", "B-Y", "L-Y"), "bilou").transitions
        assert allowed is not None
        assert allowed.tolist() == [[0, 1, 0, 0], [1, 0, 1, 0], [0, 0, 0, 1], [1, 0, 1, 0]]

    def test_partial_constraint_equals_enumeration(self) -> None:
        chain = small()
        known = torch.tensor([[-1, 2, -1, -1], [0, -1, -1, 1]])
        given = chain.given(ChainConstraint.partial(known, 3))
        for row in range(2):
            kept = [
                s for tags, s in listed(chain, row)
                if all(k in (-1, q) for k, q in zip(known[row].tolist(), tags, strict=True))
            ]  # fmt: skip
            assert given.log_partition()[row].item() == pytest.approx(log_add(kept), abs=1e-12)
        assert given.log_prob(torch.tensor([[0, 0, 0, 0], [0, 0, 0, 1]]))[0] == -math.inf

    def test_constraints_combine_by_and(self) -> None:
        known = ChainConstraint.partial(torch.tensor([[-1, 2, -1, -1], [-1, -1, -1, -1]]), 3)
        ends = ChainConstraint(end=torch.tensor([True, False, False]))
        tags = small().given(known & ends).argmax()
        assert tags[0, 1] == 2
        assert tags[:, 3].tolist() == [0, 0]

    def test_infeasible_constraint_raises_or_gives_minus_infinity(self) -> None:
        nothing = ChainConstraint(tags=torch.tensor([True, False]).reshape(2, 1, 1).expand(2, 4, 3))
        with pytest.raises(
            ImpossibleError, match=r"allows no structure for 1 of 2 distributions \(batch row 1\)\. Loosen"
        ):
            small(constraint=nothing)
        chain = small(constraint=nothing, on_infeasible="-inf")
        assert chain.log_partition()[1] == -math.inf
        assert chain.log_partition()[0] == small().log_partition()[0]
        assert (chain.argmax()[1] == -1).all()

    def test_invalid_constraint_raises_clear_error(self) -> None:
        with pytest.raises(ConfigError, match=r"Labels of the scheme 'bio' must be .*, got 'L-X'"):
            ChainConstraint.scheme(("O", "L-X"), "bio")
        with pytest.raises(ShapeError, match=r"mask transitions .* must broadcast to the scores of shape \[3, 3\]"):
            small(constraint=ChainConstraint(transitions=torch.ones(2, 2, dtype=torch.bool)))


def test_reference_program_agrees_in_every_semiring() -> None:
    chain, value = small(lengths=torch.tensor([4, 2])), small(emissions=Case(seed=9).draw(2, 4, 3))
    agrees_in_every_semiring(chain, value, [81, 9])
    with pytest.raises(ValueError, match="values must have length 1 for ExpectationSemiring, got 0"):
        chain.total(ExpectationSemiring())


def test_use_backend_rejects_unsupported_dtype_and_unknown_name() -> None:
    with (
        use_backend("kernels"),
        pytest.raises(ValueError, match=r"float32 or float64 on the CPU for the backend 'kernels', got .*float16"),
    ):
        LinearChain(torch.zeros(2, 2, dtype=torch.float16)).log_partition()
    with (
        pytest.raises(ValueError, match="unknown backend 'kernel': did you mean 'kernels'"),
        use_backend("kernel"),
    ):
        pass


TRACED = """
import torch
from catena.structure.chain import LinearChain

torch.manual_seed(0)
emissions, transitions = torch.randn(2, 4, 3, requires_grad=True), torch.randn(3, 3, requires_grad=True)
tags, lengths = torch.tensor([[0, 1, 2, 0], [1, 1, 0, 2]]), torch.tensor([4, 2])

def query(emissions, transitions):
    chain = LinearChain(emissions, transitions, lengths=lengths)
    return chain.log_prob(tags), chain.argmax()

plain = query(emissions, transitions)
traced = torch.compile(query, backend="eager", fullgraph=True)(emissions, transitions)
assert torch.equal(plain[0], traced[0]) and torch.equal(plain[1], traced[1])
grads = [torch.autograd.grad(x[0].sum(), (emissions, transitions)) for x in (plain, traced)]
assert all(torch.equal(a, b) for a, b in zip(*grads))
print("traced whole")
"""


def test_compile_traces_log_prob_and_argmax_of_chains() -> None:
    # In a separate process, because torch.compile cannot trace the shape checks of the tests.
    run = subprocess.run([sys.executable, "-c", TRACED], capture_output=True, text=True, timeout=300, check=False)
    assert run.stdout.strip() == "traced whole", run.stderr[-2000:]
