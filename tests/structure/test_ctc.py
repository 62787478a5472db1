"""CTC: the inherited laws, further tests, and a comparison with torch's loss."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import ClassVar

import pytest
import torch
from torch import Tensor

from catena.errors import ImpossibleError, ShapeError
from catena.structure.backend import use_backend
from catena.structure.base import StructuredDistribution
from catena.structure.ctc import CTC, FrameConstraint, collapse
from tests.laws.structure_checks import agrees_in_every_semiring
from tests.laws.structure_laws import Case, Ids, Member, StructureLaws
from tests.laws.structure_laws import pytest_generate_laws as pytest_generate_tests  # noqa: F401
from tests.oracle import alignments
from tests.oracle.moments import log_add, probabilities


def listed(ctc: CTC, row: int) -> list[Member]:
    """All labelings of one row, by the oracle."""
    n = ctc.emissions.shape[-2] if ctc.lengths is None else int(ctc.lengths[row])
    m = ctc.targets.shape[-1] if ctc.target_lengths is None else int(ctc.target_lengths[row])
    target = ctc.targets[row] if ctc.targets.dim() > 1 else ctc.targets
    return alignments.all_ctc_paths(ctc.emissions[row].double().tolist(), target[:m].tolist(), n, ctc.blank)


class CTCLaws(StructureLaws):
    field_ranks: ClassVar = {"emissions": 2, "targets": 1, "lengths": 0, "target_lengths": 0}

    def members(self, structure: StructuredDistribution, row: int) -> list[Member]:
        assert isinstance(structure, CTC)
        return listed(structure, row)

    def parts_of(self, ids: Ids) -> Iterable[tuple[int, ...]]:
        return [(i, q) for i, q in enumerate(ids) if q >= 0]

    def spoiled(self, structure: StructuredDistribution) -> StructuredDistribution:
        assert isinstance(structure, CTC)
        noise = 1e3 * torch.randn(structure.emissions.shape).double()
        targets = structure.targets
        if structure.target_lengths is not None:
            real = torch.arange(targets.shape[-1]) < structure.target_lengths[:, None]
            targets = torch.where(real, targets, torch.randint(-9, 9, targets.shape))
        emissions = torch.where(structure.real()[..., None], structure.emissions, noise)
        return replace(structure, emissions=emissions, targets=targets)


class TestRepeatsAndBlanks(CTCLaws):
    """Targets with a repeat, with one label, with none, and with as many as fit; the blank is not 0."""

    def structure(self, case: Case) -> CTC:
        targets = torch.tensor([[0, 0, -1], [2, 0, 5], [2, 2, 2], [0, 2, 2]])
        return CTC(case.draw(4, 5, 3), targets, torch.tensor([5, 1, 3, 4]), torch.tensor([2, 1, 0, 3]), blank=1)


class TestSharedTarget(CTCLaws):
    def structure(self, case: Case) -> CTC:
        return CTC(case.draw(4, 4, 3), torch.tensor([2, 1]), torch.tensor([4, 2, 3, 4]))


def small(**changes: object) -> CTC:
    ctc = CTC(Case(seed=31).draw(2, 4, 3), torch.tensor([[1, 2], [2, 2]]))
    return replace(ctc, **changes)  # type: ignore[arg-type]


def drawn_problem(seed: int, b: int = 6, t: int = 12, v: int = 5, s: int = 6) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(b, t, v, generator=generator, dtype=torch.float64) * 2
    targets = torch.randint(1, 3, (b, s), generator=generator)  # two labels only: many repeats
    lengths = torch.randint(t // 2, t + 1, (b,), generator=generator)
    return logits, targets, lengths, torch.randint(0, s + 1, (b,), generator=generator)


@pytest.mark.parametrize("backend", ["reference", "kernels"])
class TestAgainstTorch:
    """torch.nn.functional.ctc_loss. Its gradient with respect to log-probabilities includes their normalization, so the
    gradients with respect to the logits are compared."""

    @pytest.mark.parametrize("seed", [1, 2, 3])
    def test_log_partition_and_gradients_equal_ctc_loss(self, backend: str, seed: int) -> None:
        logits, targets, lengths, target_lengths = drawn_problem(seed)
        logits.requires_grad_()
        log_probs = logits.log_softmax(-1)
        stranger = torch.nn.functional.ctc_loss(
            log_probs.transpose(0, 1), targets, lengths, target_lengths, reduction="none"
        )
        with use_backend(backend):
            ours = -CTC(log_probs, targets, lengths, target_lengths).log_partition()
        possible = stranger.isfinite()
        assert possible.any()
        assert torch.equal(possible, ours.isfinite())
        assert torch.allclose(ours[possible], stranger[possible], atol=1e-10)
        weights = torch.linspace(0.5, 2, len(ours)).double()
        expected, found = (
            torch.autograd.grad((weights * x)[possible].sum(), logits, retain_graph=True)[0] for x in (stranger, ours)
        )
        assert (expected - found)[possible].abs().max() < 1e-10
        assert (found[~possible] == 0).all()  # torch has nan here

    def test_target_longer_than_input_is_impossible_with_zero_gradient(self, backend: str) -> None:
        """torch gives an infinite loss here, and a gradient of nan unless zero_infinity is set."""
        emissions = torch.randn(3, 4, 3).double().log_softmax(-1).requires_grad_()
        targets = torch.tensor([[1, 2, 1, 2, 1], [1, 1, 1, 0, 0], [1, 2, 0, 0, 0]])
        with use_backend(backend):
            ctc = CTC(emissions, targets, target_lengths=torch.tensor([5, 3, 2]))
            log_z = ctc.log_partition()
            assert (log_z[:2] == -math.inf).all()
            assert log_z[2].isfinite()
            (grad,) = torch.autograd.grad(log_z.sum(), emissions)
            assert not grad.isnan().any()
            assert (grad[:2] == 0).all()
            assert (ctc.argmax()[:2] == -1).all()
            assert (ctc.sample(2)[:, :2] == -1).all()
            assert (ctc.topk(2).scores[:, :2] == -math.inf).all()
            assert (ctc.entropy()[:2] == 0).all()
            assert (ctc.position_marginals()[:2] == 0).all()


@pytest.mark.parametrize("backend", ["reference", "kernels"])
class TestFrames:
    def test_no_frames_have_one_labeling_of_the_empty_target(self, backend: str) -> None:
        with use_backend(backend):
            ctc = small(lengths=torch.tensor([0, 0]), target_lengths=torch.tensor([0, 1]))
            assert ctc.log_partition().tolist() == [0, -math.inf]
            assert ctc.max().tolist() == [0, -math.inf]
            assert ctc.entropy().tolist() == [0, 0]
            assert (ctc.argmax() == -1).all()
            assert (ctc.marginals() == 0).all()
            assert ctc.topk(2).scores.tolist() == [[0, -math.inf], [-math.inf, -math.inf]]
            assert (ctc.sample(2) == -1).all()

    def test_empty_target_is_all_blanks(self, backend: str) -> None:
        emissions = Case(seed=2).draw(2, 4, 3)
        with use_backend(backend):
            for targets, none in ((torch.zeros(2, 0).long(), None), (torch.tensor([1, 2]), torch.tensor(0))):
                ctc = CTC(emissions, targets, target_lengths=none, blank=2)
                assert torch.allclose(ctc.log_partition(), emissions[..., 2].sum(-1))
                assert (ctc.argmax() == 2).all()
                assert (ctc.sample(2) == 2).all()
                assert torch.equal(ctc.marginals(), torch.tensor([0.0, 0, 1]).double().expand(2, 4, 3))
                assert ctc.position_marginals().sum() == 0

    def test_position_marginals_equal_enumeration(self, backend: str) -> None:
        with use_backend(backend):
            for ctc in (small(), small(lengths=torch.tensor([3, 4]))):
                found = ctc.position_marginals()
                for row in range(2):
                    members = listed(ctc, row)
                    expected = torch.zeros_like(found[row])
                    for (ids, _), p in zip(members, probabilities([s for _, s in members]), strict=True):
                        place = ctc.positions(torch.tensor([ids] * 2))[row].tolist()
                        for i, j in enumerate(place):
                            if j >= 0:
                                assert ctc.targets[row, j] == ids[i]
                                expected[i, j] += p
                    assert (found[row] - expected).abs().max() < 1e-12

    def test_positions_are_target_indices(self, backend: str) -> None:
        ctc = CTC(torch.zeros(8, 3), torch.tensor([1, 1, 2]))
        assert ctc.positions(torch.tensor([0, 1, 1, 0, 1, 2, 2, 0])).tolist() == [-1, 0, 0, -1, 1, 2, 2, -1]

    def test_empty_batch_gives_empty_results(self, backend: str) -> None:
        with use_backend(backend):
            ctc = CTC(torch.zeros(0, 4, 3), torch.zeros(0, 2).long())
            assert ctc.log_partition().shape == (0,)
            assert ctc.argmax().shape == (0, 4)
            assert ctc.sample(2).shape == (2, 0, 4)

    def test_argmax_and_samples_collapse_to_the_target(self, backend: str) -> None:
        logits, targets, lengths, target_lengths = drawn_problem(5)
        with use_backend(backend):
            ctc = CTC(logits, targets, lengths, target_lengths)
            possible = ctc.log_partition() > -math.inf
            for labels in (ctc.argmax()[None], ctc.sample(5), ctc.topk(3).structures[:1]):
                said, count = collapse(labels[:, possible])
                assert torch.equal(count, target_lengths[possible].expand_as(count))
                for row, (n, target) in enumerate(zip(target_lengths[possible], targets[possible], strict=True)):
                    assert (said[:, row, :n] == target[:n]).all()


def test_collapse_equals_oracle() -> None:
    labels = torch.randint(0, 3, (50, 7))
    said, count = collapse(labels, blank=1)
    assert said.shape == (50, 7)
    for row, n, frames in zip(said.tolist(), count.tolist(), labels.tolist(), strict=True):
        assert row[:n] == alignments.collapsed(frames, 1)
        assert row[n:] == [-1] * (7 - n)


class TestScores:
    @pytest.mark.parametrize(
        ("labels", "fault"),
        [
            ([1, 2, 2, 0], "lacks a label"),
            ([1, 1, 2, 1], "collapses to another target"),
            ([1, 1, 1, 2], "has no blank between two equal labels"),
            ([1, 0, 1, -1], "leaves a frame without a label"),
            ([1, 0, 1, 3], "has a label too many"),
            ([0, 0, 0, 0], "says nothing"),
            ([1, 0, 1, 2], ""),
        ],
    )
    def test_score_of_labeling_of_another_target_is_minus_infinity(self, labels: list[int], fault: str) -> None:
        ctc = CTC(torch.zeros(4, 3), torch.tensor([1, 1, 2]))
        assert (ctc.score(torch.tensor(labels)) == -math.inf) == bool(fault), fault

    def test_wrong_shape_raises_error_with_tensor_name(self) -> None:
        with pytest.raises((ShapeError, TypeError), match="emissions"):
            CTC(torch.zeros(3), torch.tensor([1]))
        with pytest.raises((ShapeError, TypeError), match="targets"):
            small(targets=torch.tensor([[1], [1], [2]]))
        with pytest.raises((ShapeError, TypeError), match="target_lengths"):
            small(target_lengths=torch.tensor([1, 2, 2]))
        with pytest.raises(ShapeError, match="blank must be a label from 0 to 2, got 3"):
            small(blank=3)
        with pytest.raises(ShapeError, match=r"must end in the axes \[t, v\] = \[4, 3\]"):
            small().expectation(torch.zeros(4, 4))


class TestConstraints:
    def test_partial_constraint_on_frames_conditions_the_distribution(self) -> None:
        known = torch.tensor([[-1, 1, -1, -1], [-1, -1, 0, -1]])
        given = small().given(FrameConstraint.partial(known, 3))
        for row in range(2):
            kept = [
                s for ids, s in listed(small(), row)
                if all(k in (-1, q) for k, q in zip(known[row].tolist(), ids, strict=True))
            ]  # fmt: skip
            assert given.log_partition()[row].item() == pytest.approx(log_add(kept), abs=1e-12)

    def test_frame_constraints_combine_by_and(self) -> None:
        first = FrameConstraint.partial(torch.tensor([1, -1, -1, -1]), 3)
        no_blank_at_one = FrameConstraint(torch.tensor([[1, 1, 1], [0, 1, 1], [1, 1, 1], [1, 1, 1]]).bool())
        ctc = CTC(Case(seed=4).draw(1, 4, 3), torch.tensor([1, 2]), constraint=first & no_blank_at_one)
        kept = [s for ids, s in listed(CTC(ctc.emissions, ctc.targets), 0) if ids[0] == 1 and ids[1] != 0]
        assert ctc.log_partition().item() == pytest.approx(log_add(kept), abs=1e-12)

    def test_infeasible_constraint_raises_or_gives_minus_infinity(self) -> None:
        nothing = FrameConstraint.partial(torch.tensor([[-1, -1, -1, -1], [2, 2, 2, -1]]), 3)
        with pytest.raises(ImpossibleError, match=r"allows no structure for 1 of 2 distributions \(batch row 1\)"):
            small(constraint=nothing)
        ctc = small(constraint=nothing, on_infeasible="-inf")
        assert ctc.log_partition()[1] == -math.inf
        assert ctc.log_partition()[0].isfinite()


def test_reference_program_agrees_in_every_semiring() -> None:
    ctc = small(lengths=torch.tensor([4, 3]))
    value = replace(ctc, emissions=Case(seed=9).draw(2, 4, 3))
    agrees_in_every_semiring(ctc, value, [len(listed(ctc, row)) for row in range(2)])
