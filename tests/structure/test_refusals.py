"""Invalid arguments raise a one-sentence error or have probability 0, and are never read out of bounds."""

from __future__ import annotations

import math
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import fields

import pytest
import torch
from torch import Tensor

from catena.errors import DataError, ShapeError
from catena.structure.alignment import Alignment
from catena.structure.alignment_one_to_one import OneToOneAlignment
from catena.structure.automaton.build import from_arcs
from catena.structure.automaton.paths import PathDistribution
from catena.structure.backend import use_backend
from catena.structure.base import StructuredDistribution
from catena.structure.chain import LinearChain
from catena.structure.ctc import CTC
from catena.structure.low_rank_pcfg import LowRankPCFG
from catena.structure.nonprojective import NonProjectiveTree
from catena.structure.pcfg import PCFG
from catena.structure.projective import ProjectiveTree
from catena.structure.semimarkov import SemiMarkov
from catena.structure.tree import SpanTree

NEVER = float("-inf")

# Each over two rows of three positions, with the given lengths.
BY_LENGTHS: dict[str, Callable[[Tensor], StructuredDistribution]] = {
    "chain": lambda n: LinearChain(torch.zeros(2, 3, 2), lengths=n),
    "semimarkov": lambda n: SemiMarkov(torch.zeros(2, 3, 2, 2), lengths=n),
    "alignment, source": lambda n: Alignment(torch.zeros(2, 3, 2), source_lengths=n),
    "alignment, target": lambda n: Alignment(torch.zeros(2, 2, 3), target_lengths=n),
    "one to one, source": lambda n: OneToOneAlignment(torch.zeros(2, 3, 2), source_lengths=n),
    "one to one, target": lambda n: OneToOneAlignment(torch.zeros(2, 2, 3), target_lengths=n),
    "ctc, frames": lambda n: CTC(torch.zeros(2, 3, 3), torch.ones(2, 1, dtype=torch.int64), lengths=n),
    "ctc, target": lambda n: CTC(torch.zeros(2, 6, 3), torch.ones(2, 3, dtype=torch.int64), target_lengths=n),
    "span tree": lambda n: SpanTree(torch.zeros(2, 3, 3, 2), lengths=n),
    "pcfg": lambda n: PCFG(torch.zeros(2, 3, 2), torch.zeros(1, 3, 3), torch.zeros(3), lengths=n),
    "low rank": lambda n: LowRankPCFG(
        torch.zeros(2, 3, 2), torch.zeros(1, 2), torch.zeros(2, 3), torch.zeros(2, 3), torch.zeros(3), lengths=n
    ),
    "projective": lambda n: ProjectiveTree(torch.zeros(2, 4, 4), lengths=n),
    "non-projective": lambda n: NonProjectiveTree(torch.zeros(2, 4, 4), lengths=n),
}


@pytest.mark.parametrize("name", BY_LENGTHS)
@pytest.mark.parametrize("wrong", [-1, 4])
def test_lengths_out_of_range_raise(name: str, wrong: int) -> None:
    with pytest.raises(ShapeError, match=rf"lengths must be from 0 to 3, .*, got {wrong}\."):
        BY_LENGTHS[name](torch.tensor([2, wrong]))


@pytest.mark.parametrize("name", BY_LENGTHS)
def test_lengths_may_have_any_integer_dtype(name: str) -> None:
    short, long = (BY_LENGTHS[name](torch.tensor([3, 2], dtype=dtype)) for dtype in (torch.int32, torch.int64))
    assert torch.equal(short.log_partition(), long.log_partition())
    assert torch.equal(short.argmax(), long.argmax())
    assert torch.equal(short.topk(2).scores, long.topk(2).scores)
    assert short.sample(2).shape == long.sample(2).shape


def test_span_tree_lengths_of_another_batch_raise() -> None:
    with pytest.raises((ShapeError, TypeError), match="lengths"):  # beartype's error comes first under the import hook
        SpanTree(torch.zeros(2, 3, 3, 2), lengths=torch.tensor([1, 2, 3]))


@pytest.mark.parametrize("backend", ["auto", "reference"])
def test_tags_out_of_range_raise(backend: str) -> None:
    chain = LinearChain(torch.zeros(2, 3), torch.zeros(3, 3))
    with use_backend(backend):
        for tags in ([0, 3], [[0, 1], [3, 0]]):
            with pytest.raises(DataError, match="Tags must be below k = 3, got 3"):
                chain.log_prob(torch.tensor(tags))


@pytest.mark.parametrize("backend", ["auto", "reference"])
def test_tags_out_of_range_raise_with_nan_scores(backend: str) -> None:
    chain = LinearChain(torch.full((2, 3), float("inf")))
    with use_backend(backend), pytest.raises(DataError, match="Tags must be below k = 3, got 3"):
        chain.log_prob(torch.tensor([0, 3]))


def test_tags_after_the_length_are_not_read() -> None:
    chain = LinearChain(torch.zeros(2, 2, 3), lengths=torch.tensor([1, 2]))
    assert torch.isfinite(chain.log_prob(torch.tensor([[0, 9], [1, 2]]))).all()


def test_ctc_targets_out_of_range_raise() -> None:
    emissions, lengths = torch.zeros(2, 3, 3), torch.tensor([2, 1])
    CTC(emissions, torch.tensor([[1, 2], [1, 0]]), target_lengths=lengths)
    for wrong in (3, 0, -1):
        with pytest.raises(DataError, match=rf"targets must be labels from 0 to 2 .*, got {wrong}\."):
            CTC(emissions, torch.tensor([[1, wrong], [1, 1]]), target_lengths=lengths)


# Each over one row, with structures of too few positions.
TOO_SHORT: dict[str, tuple[StructuredDistribution, list[int]]] = {
    "chain": (LinearChain(torch.zeros(2, 3)), [0]),
    "one to one": (OneToOneAlignment(torch.zeros(2, 2)), [0]),
    "ctc": (CTC(torch.zeros(2, 3), torch.tensor([1])), [1]),
    "projective": (ProjectiveTree(torch.zeros(3, 3)), [0]),
    "non-projective": (NonProjectiveTree(torch.zeros(3, 3)), [0]),
}


@pytest.mark.parametrize("name", TOO_SHORT)
def test_structures_of_wrong_shape_raise(name: str) -> None:
    structure, member = TOO_SHORT[name]
    for question in (structure.score, structure.log_prob, structure.parts):
        with pytest.raises(ShapeError, match=r"Structures must end in the axes \[\w = 2\], got shape \[1\]"):
            question(torch.tensor(member))


@pytest.mark.parametrize("backend", ["auto", "reference"])
@pytest.mark.parametrize("name", BY_LENGTHS)
def test_structures_may_have_any_integer_dtype(name: str, backend: str) -> None:
    structure = BY_LENGTHS[name](torch.tensor([3, 2]))
    best = structure.argmax()
    with use_backend(backend):
        for question in (structure.score, structure.log_prob, structure.parts):
            assert torch.equal(question(best.to(torch.int32)), question(best))


WRONG_MEMBERS = """
import torch
from tests.structure.test_refusals import BY_LENGTHS

for name, make in BY_LENGTHS.items():
    structure = make(torch.tensor([3, 2]))
    best = structure.argmax()
    for question in (structure.score, structure.log_prob, structure.parts):
        for wrong in (best.tolist(), best.numpy(), best.float(), best > 0):
            try:
                question(wrong)
            except Exception as error:
                print(error)
"""


def test_structures_of_wrong_type_raise() -> None:
    # In a separate process, because the tests check the types of signatures first.
    run = subprocess.run([sys.executable, "-c", WRONG_MEMBERS], capture_output=True, text=True, timeout=600, check=True)
    told = Counter(line.split(" must ")[1] for line in run.stdout.splitlines())
    assert told == dict.fromkeys(
        (
            "be a tensor, got list. Call torch.as_tensor first.",
            "be a tensor, got ndarray. Call torch.as_tensor first.",
            "have an integer dtype, got torch.float32. Convert it to int64.",
            "have an integer dtype, got torch.bool. Convert it to int64.",
        ),
        3 * len(BY_LENGTHS),
    )


@pytest.mark.parametrize("name", ["chain", "projective", "non-projective"])
def test_mask_of_integers_raises(name: str) -> None:
    given = BY_LENGTHS[name](torch.tensor([3, 2]))
    object.__setattr__(given, "mask", torch.ones(2, 3, dtype=torch.uint8))
    with pytest.raises(ShapeError, match=r"mask must be bool, True where .*, got torch.uint8. Call .bool\(\) first"):
        given.__post_init__(None, "error")  # type: ignore[attr-defined]


def test_hmm_observations_out_of_range_raise() -> None:
    start, moves = torch.tensor([0.5, 0.5]).log(), torch.full((2, 2), 0.5).log()
    shown = torch.tensor([[0.8, 0.1, 0.1], [0.1, 0.1, 0.8]]).log()
    for wrong in (-1, 3):
        with pytest.raises(DataError, match=f"observations must be symbols from 0 to 2, got {wrong}. Pass lengths"):
            LinearChain.hmm(start, moves, shown, torch.tensor([0, 1, wrong]))
    padded = LinearChain.hmm(start, moves, shown, torch.tensor([[0, 1, -1]]), torch.tensor([2]))
    assert torch.allclose(
        padded.log_partition(), LinearChain.hmm(start, moves, shown, torch.tensor([[0, 1]])).log_partition()
    )


def test_kl_with_another_batch_size_raises() -> None:
    with pytest.raises(ShapeError, match=r"The batch axes of other must broadcast to \[2\], got \[3\]"):
        LinearChain(torch.zeros(2, 4, 3)).kl(LinearChain(torch.zeros(3, 4, 3)))
    shared = LinearChain(torch.randn(4, 3, dtype=torch.float64))
    assert LinearChain(torch.zeros(2, 4, 3, dtype=torch.float64)).kl(shared).shape == (2,)


MISTAKEN = """
import torch
from catena.structure.automaton.build import from_strings
from catena.structure.automaton.paths import PathDistribution
from catena.structure.chain import LinearChain
from catena.structure.constraints import ChainConstraint
from catena.structure.dependency import ArcConstraint
from catena.structure.nonprojective import NonProjectiveTree

chain, machine = LinearChain(torch.zeros(4, 3)), from_strings(["ab", "b"])
for call in (
    lambda: chain.given(ChainConstraint(tags=torch.ones(4, 3))),
    lambda: NonProjectiveTree(torch.zeros(3, 3), constraint=ArcConstraint([[True] * 3] * 3)),
    lambda: chain.expectation(1.0),
    lambda: chain.topk(2.0),
    lambda: chain.sample((3,)),
    lambda: chain.sample(3, 7),
    lambda: PathDistribution(machine, [0.0] * machine.n_arcs, machine.initial, machine.final),
    lambda: PathDistribution(machine, torch.zeros(machine.n_arcs, dtype=torch.int64), machine.initial, machine.final),
):
    try:
        call()
    except Exception as error:
        print(error)
"""
TOLD = [
    "The mask tags of a constraint must be a bool tensor, got dtype torch.float32. Use True for allowed.",
    "The mask arcs of a constraint must be a bool tensor, got list. Use True for allowed.",
    "value must be a tensor shaped like the marginals or a LinearChain, got float. Pass one of the two.",
    "k must be an integer, got 2.0. Pass the number of structures.",
    "n must be an integer, got (3,). Pass the number of structures.",
    "generator must be a torch.Generator, got 7. Pass torch.Generator().manual_seed(seed).",
    "weight must be a tensor, got list. Call torch.as_tensor first.",
    "scores must have a floating-point dtype, got torch.int64. Call .float() first.",
]


def test_invalid_arguments_raise_one_sentence() -> None:
    # In a separate process, because the tests check the types of signatures first.
    run = subprocess.run([sys.executable, "-c", MISTAKEN], capture_output=True, text=True, timeout=600, check=True)
    assert run.stdout.splitlines() == TOLD


def test_structures_of_another_batch_raise() -> None:
    with pytest.raises(ShapeError, match=r"must end in the axes \[2, n, triple = 3\], got shape \[3, 5, 3\]"):
        SpanTree(torch.zeros(2, 3, 3, 2)).score(torch.zeros(3, 5, 3, dtype=torch.int64))


@pytest.mark.parametrize("row", [(0, 5, 0), (9, 9, 0), (0, 1, 7), (0, -1, 0), (1, 0, 0)])
def test_spans_out_of_range_have_probability_zero_and_no_parts(row: tuple[int, int, int]) -> None:
    tree = SpanTree(torch.zeros(2, 2, 2))
    grammar = PCFG(torch.zeros(2, 1), torch.zeros(1, 2, 2), torch.zeros(1), torch.zeros(2, 2, 1))
    for structure, symbol in ((tree, 0), (grammar, 1)):
        spans = torch.tensor([row, (0, 0, symbol), (1, 1, symbol)])
        assert structure.log_prob(spans) == NEVER
        assert structure.parts(spans).sum() == 2
        assert structure.parts(spans)[[0, 1], [0, 1], symbol].sum() == 2


def test_rule_counts_ignores_unknown_symbols() -> None:
    grammar = PCFG(torch.zeros(2, 2), torch.zeros(1, 3, 3), torch.zeros(3))
    assert grammar.rule_counts(torch.tensor([(0, 1, 0), (0, 0, 1), (1, 1, 2)])).sum() == 1
    for rows in ([(0, 1, 1), (0, 0, 1), (1, 1, 2)], [(0, 1, 0), (0, 0, 9), (1, 1, 2)]):
        assert grammar.rule_counts(torch.tensor(rows)).sum() == 0


@pytest.mark.parametrize("backend", ["auto", "reference"])
@pytest.mark.parametrize("name", BY_LENGTHS)
def test_zero_samples_are_allowed_but_topk_of_zero_raises(name: str, backend: str) -> None:
    structure = BY_LENGTHS[name](torch.tensor([3, 2]))
    with use_backend(backend):
        for k in (0, -1):
            with pytest.raises(ValueError, match=f"k must be at least 1, got {k}"):
                structure.topk(k)
        with pytest.raises(ValueError, match="n must be at least 0, got -1"):
            structure.sample(-1)
        assert structure.sample(0).shape == (0, *structure.sample(1).shape[1:])


@pytest.mark.parametrize("name", BY_LENGTHS)
def test_kl_over_different_structures_raises(name: str) -> None:
    p, q = (BY_LENGTHS[name](torch.tensor(lengths)) for lengths in ([3, 2], [2, 2]))
    for question in (p.kl, p.cross_entropy):
        with pytest.raises(ShapeError, match="lengths, masks or targets of the two distributions differ"):
            question(q)
    same = BY_LENGTHS[name](torch.tensor([3, 2]))
    assert torch.allclose(p.kl(same), torch.zeros(2), atol=1e-6)


def test_kl_of_ctc_with_other_targets_raises() -> None:
    p, q = (CTC(torch.zeros(3, 3), torch.tensor([label])) for label in (1, 2))
    with pytest.raises(ShapeError, match="lengths, masks or targets of the two distributions differ"):
        p.kl(q)
    wider = CTC(torch.zeros(3, 3), torch.tensor([1, 0, 0, 0]), target_lengths=torch.tensor(1))
    assert p.kl(wider) == 0


def test_kl_of_chains_with_other_tags_raises() -> None:
    with pytest.raises(ShapeError, match=r"other must have scores of shape \[3, 2\], got \[3, 1\]"):
        LinearChain(torch.zeros(3, 2)).kl(LinearChain(torch.zeros(3, 1)))


def test_integer_scores_raise() -> None:
    with pytest.raises((ShapeError, TypeError), match=r"floating-point dtype|arcs"):
        NonProjectiveTree(torch.zeros(3, 3, dtype=torch.int64))


@pytest.mark.parametrize("name", BY_LENGTHS)
def test_lists_as_tensors_raise(name: str) -> None:
    given = BY_LENGTHS[name](torch.tensor([3, 2]))
    tensors = {field.name: x for field in fields(given) if isinstance(x := getattr(given, field.name), Tensor)}  # type: ignore[arg-type]
    assert len(tensors) > 1
    for field, x in tensors.items():
        object.__setattr__(given, field, x.tolist())
        with pytest.raises(ShapeError, match=rf"^{field} must be a tensor, got list. Call torch.as_tensor"):
            given.__post_init__(None, "error")  # type: ignore[attr-defined]  # in tests the types of __init__ are checked
        object.__setattr__(given, field, x)


def test_chain_scores_may_have_two_dtypes() -> None:
    chain = LinearChain(torch.zeros(3, 2), torch.zeros(2, 2).double(), torch.zeros(2).double())
    assert torch.allclose(chain.log_partition(), torch.tensor(8.0).log())
    assert chain.argmax().shape == (3,)


def two_states(*arcs: tuple[int, int]) -> PathDistribution:
    return PathDistribution.of(from_arcs([(*arc, 1, 1, 0.0) for arc in arcs], [0], [1]))


def test_kl_of_paths_of_other_automata_raises() -> None:
    with pytest.raises(ShapeError, match="lengths, masks or targets of the two distributions differ"):
        two_states((0, 1), (0, 1)).kl(two_states((0, 1), (0, 0)))


# Each over three rows: the second reads a score of the given value, and the third has it where it is not read.
def spoiled(*shape: int, at: tuple[int, ...], value: float, unread: tuple[int, ...] | None = None) -> Tensor:
    scores = torch.linspace(-1, 1, math.prod(shape), dtype=torch.float64).reshape(shape)
    scores[(1, *at)] = value
    if unread is not None:
        scores[(2, *unread)] = value
    return scores


def zeros(*shape: int) -> Tensor:
    return torch.zeros(shape, dtype=torch.float64)


SHORT = torch.tensor([4, 4, 3])
WITH_WRONG: dict[str, Callable[[float], StructuredDistribution]] = {
    "chain": lambda x: LinearChain(spoiled(3, 4, 2, at=(2, 1), value=x, unread=(3, 0)), lengths=SHORT),
    "chain, transitions": lambda x: LinearChain(
        zeros(3, 4, 2), spoiled(3, 2, 2, at=(0, 1), value=x, unread=(1, 1)), lengths=torch.tensor([4, 4, 1])
    ),
    "chain, start": lambda x: LinearChain(zeros(3, 4, 2), start=spoiled(3, 2, at=(0,), value=x)),
    "chain, steps": lambda x: LinearChain(
        zeros(3, 4, 2), steps=spoiled(3, 4, 2, 2, at=(2, 0, 1), value=x, unread=(0, 0, 0))
    ),
    "semimarkov": lambda x: SemiMarkov(
        spoiled(3, 4, 2, 2, at=(1, 1, 1), value=x, unread=(2, 1, 0)), lengths=SHORT
    ),
    "semimarkov, transitions": lambda x: SemiMarkov(zeros(3, 4, 2, 2), spoiled(3, 2, 2, at=(1, 1), value=x)),
    "alignment": lambda x: Alignment(spoiled(3, 4, 3, at=(1, 1), value=x, unread=(3, 0)), source_lengths=SHORT),
    "one to one": lambda x: OneToOneAlignment(
        spoiled(3, 4, 4, at=(1, 1), value=x, unread=(3, 0)), source_lengths=SHORT),
    "ctc": lambda x: CTC(
        spoiled(3, 4, 3, at=(1, 1), value=x, unread=(3, 1)), torch.tensor([[1, 2]] * 3), lengths=SHORT
    ),
    "span tree": lambda x: SpanTree(spoiled(3, 4, 4, 2, at=(1, 2, 0), value=x, unread=(0, 3, 0)), lengths=SHORT),
    "pcfg": lambda x: PCFG(
        spoiled(3, 4, 2, at=(1, 1), value=x, unread=(3, 0)), zeros(1, 3, 3), zeros(1), lengths=SHORT
    ),
    "pcfg, rules": lambda x: PCFG(
        zeros(3, 4, 2), spoiled(3, 2, 4, 4, at=(0, 1, 1), value=x, unread=(1, 1, 1)), zeros(4),
        lengths=torch.tensor([4, 4, 1]),
    ),
    "pcfg, roots": lambda x: PCFG(zeros(3, 4, 2), zeros(1, 3, 3), spoiled(3, 3, at=(0,), value=x)),
    "pcfg, spans": lambda x: PCFG(
        zeros(3, 4, 2), zeros(2, 4, 4), zeros(4),
        spoiled(3, 4, 4, 2, at=(1, 2, 0), value=x, unread=(0, 3, 0)), lengths=SHORT,
    ),
    "low rank": lambda x: LowRankPCFG(
        spoiled(3, 4, 2, at=(1, 1), value=x, unread=(3, 0)), zeros(1, 2), zeros(2, 3), zeros(2, 3), zeros(1),
        lengths=SHORT,
    ),
    "projective": lambda x: ProjectiveTree(spoiled(3, 5, 5, at=(2, 1), value=x, unread=(1, 4)), lengths=SHORT),
    "non-projective": lambda x: NonProjectiveTree(spoiled(3, 5, 5, at=(2, 1), value=x, unread=(1, 4)), lengths=SHORT),
}  # fmt: skip


@pytest.mark.parametrize("backend", ["auto", "reference"])
@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
@pytest.mark.parametrize("name", WITH_WRONG)
def test_nan_scores_invalidate_only_their_row(name: str, wrong: float, backend: str) -> None:
    structure, only_second = WITH_WRONG[name](wrong), [False, True, False]
    with use_backend(backend):
        for numbers in (structure.log_partition(), structure.max(), *structure.topk(2).scores):
            assert numbers.isnan().tolist() == only_second
        assert structure.marginals().isnan().flatten(1).any(1).tolist() == only_second
        sound = structure.spoiled().logical_not()  # type: ignore[union-attr]
        for found in (structure.argmax(), structure.topk(2).structures[1], structure.sample(1)[0]):
            assert (found[1] == -1).all()
            assert (structure.score(found)[sound] > NEVER).all()


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_nan_scores_are_detected_under_vmap(wrong: float) -> None:
    scores = spoiled(3, 4, 2, at=(2, 1), value=wrong)
    best = torch.func.vmap(lambda x: LinearChain(x).argmax())(scores)
    assert (best == -1).all(1).tolist() == [False, True, False]
    assert (LinearChain(scores[::2]).log_prob(best[::2]) > NEVER).all()


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_nan_arc_labels_invalidate_their_row(wrong: float) -> None:
    labels = spoiled(3, 4, 4, 2, at=(2, 1, 0), value=wrong)
    trees = ProjectiveTree(zeros(3, 4, 4), labels)
    assert trees.max().isnan().tolist() == trees.log_partition().isnan().tolist() == [False, True, False]
    assert (trees.argmax()[1] == -1).all()


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_gradient_of_shared_scores_is_nan_when_log_partition_is_nan(wrong: float) -> None:
    rules = zeros(1, 3, 3).requires_grad_()
    PCFG(spoiled(3, 4, 2, at=(1, 1), value=wrong), rules, zeros(1)).log_partition().sum().backward()
    assert rules.grad is not None
    assert rules.grad.isnan().all()


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
@pytest.mark.parametrize("cls", [ProjectiveTree, NonProjectiveTree])
def test_nan_arcs_invalidate_only_their_row(cls: type[ProjectiveTree] | type[NonProjectiveTree], wrong: float) -> None:
    arcs = torch.zeros(3, 4, 4)
    arcs[:, :, 0] = arcs[2, 3, 3] = wrong  # not read
    sound = cls(torch.zeros(4, 4))
    arcs[1, 2, 1] = wrong
    trees = cls(arcs)
    assert trees.log_partition().isnan().tolist() == [False, True, False]
    assert trees.marginals().isnan().flatten(1).any(1).tolist() == [False, True, False]
    assert torch.allclose(trees.log_partition()[::2], sound.log_partition())
    for found in (trees.argmax(), trees.topk(2).structures[1], trees.sample(1)[0]):
        assert (found[1] == -1).all()
        assert (sound.log_prob(found[::2]) > NEVER).all()


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
def test_nan_span_scores_do_not_count_as_impossible(wrong: float) -> None:
    tree = SpanTree(torch.full((3, 3, 1), wrong))
    assert not tree.log_partition().isfinite()
    assert tree.log_partition() != NEVER
    assert tree.argmax().shape == tree.topk(2).structures[0].shape == tree.sample(1)[0].shape == (5, 3)


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
@pytest.mark.parametrize("k", [1, 3])
def test_nan_span_scores_invalidate_only_their_row(k: int, wrong: float) -> None:
    scores = torch.zeros(3, 4, 4, k)
    scores[:, 2, 1] = scores[2, 0, 3] = wrong  # not read: there is no such span, or it is padding
    scores[1, 1, 2, 0] = wrong
    trees = SpanTree(scores, torch.tensor([4, 4, 3]))
    sound = SpanTree(torch.zeros(2, 4, 4, k), torch.tensor([4, 3]))
    assert trees.log_partition().isnan().tolist() == [False, True, False]
    assert trees.marginals().isnan().flatten(1).any(1).tolist() == [False, True, False]
    assert torch.allclose(trees.log_partition()[::2], sound.log_partition())
    assert torch.func.vmap(lambda x: SpanTree(x).log_partition())(scores[:2]).isnan().tolist() == [False, True]
    for found in (trees.argmax(), trees.topk(2).structures[1], trees.sample(1)[0]):
        assert (found[1] == -1).all()
        assert (sound.log_prob(found[::2]) > NEVER).all()
