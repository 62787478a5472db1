"""Symbols and lengths out of range: an error, or nan where values cannot be read."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest
import torch

from catena.errors import DataError, ShapeError
from catena.structure.alignment import Alignment
from catena.structure.base import SemiringDistribution
from catena.structure.chain import LinearChain
from catena.structure.ctc import CTC
from catena.structure.low_rank_pcfg import LowRankPCFG
from catena.structure.semirings import ExpectationSemiring, SecondOrderExpectationSemiring
from tests.structure.test_refusals import BY_LENGTHS
from tests.structure.test_transforms import KINDS, drawn

TABLE, GAPS = torch.arange(4.0).reshape(2, 2), torch.tensor([-1.0, -2.0])


@pytest.mark.parametrize("name", BY_LENGTHS)
def test_lengths_out_of_range_give_nan_under_vmap(name: str) -> None:
    lengths = torch.tensor([[3, 2], [4, 2], [3, -1], [3, 2]])
    log_z = torch.vmap(lambda n: BY_LENGTHS[name](n).log_partition())(lengths)
    assert log_z.isnan().tolist() == [[False, False], [True, False], [False, True], [False, False]]
    best = torch.vmap(lambda n: BY_LENGTHS[name](n).argmax())(lengths)
    assert (best[1, 0] == -1).all()
    assert torch.equal(best[0], BY_LENGTHS[name](lengths[0]).argmax())


COMPILED = """
import torch
from tests.structure.test_refusals import BY_LENGTHS

for name, make in BY_LENGTHS.items():
    torch._dynamo.reset()
    log_z = torch.compile(lambda n: make(n).log_partition(), backend="eager", fullgraph=True)
    assert log_z(torch.tensor([4, 2])).isnan().tolist() == [True, False], name
    assert torch.equal(log_z(torch.tensor([3, 2])), make(torch.tensor([3, 2])).log_partition()), name
print("done")
"""


def test_lengths_out_of_range_give_nan_under_compile() -> None:
    # In a separate process, because torch.compile cannot trace the shape checks of the tests.
    run = subprocess.run([sys.executable, "-c", COMPILED], capture_output=True, text=True, timeout=600, check=False)
    assert run.stdout.strip() == "done", run.stderr[-2000:]


@pytest.mark.parametrize("wrong", [2, 7, -1])
def test_edit_tables_have_no_score_for_unknown_symbols(wrong: int) -> None:
    known, unknown = torch.tensor([0, 1]), torch.tensor([0, wrong])
    with pytest.raises(DataError, match=f"source must be symbols from 0 to 1, got {wrong}. Pass lengths"):
        Alignment.edit(unknown, known, TABLE, GAPS, GAPS)
    with pytest.raises(DataError, match=f"target must be symbols from 0 to 1, got {wrong}. Pass lengths"):
        Alignment.edit(known, unknown, TABLE, GAPS, GAPS)
    padded = Alignment.edit(unknown, known, TABLE, GAPS, GAPS, source_lengths=torch.tensor(1))
    short = Alignment.edit(known[:1], known, TABLE, GAPS, GAPS)
    assert torch.equal(padded.log_partition(), short.log_partition())
    assert torch.equal(padded.entropy(), short.entropy())
    both = torch.stack((known, unknown))
    of_sources = torch.vmap(lambda x: Alignment.edit(x, known, TABLE, GAPS, GAPS).log_partition())(both)
    of_targets = torch.vmap(lambda y: Alignment.edit(known, y, TABLE, GAPS, GAPS).log_partition())(both)
    for found in (of_sources, of_targets):
        assert found.isnan().tolist() == [False, True]
        assert torch.equal(found[0], Alignment.edit(known, known, TABLE, GAPS, GAPS).log_partition())


@pytest.mark.parametrize("wrong", [3, 9, -1, 0])
def test_ctc_targets_out_of_range_give_nan_under_vmap(wrong: int) -> None:
    targets = torch.tensor([[1, wrong], [1, 2]])
    found = torch.vmap(lambda y: CTC(torch.zeros(4, 3), y).log_partition())(targets)
    assert found.isnan().tolist() == [True, False]
    padded = torch.vmap(lambda y: CTC(torch.zeros(4, 3), y, target_lengths=torch.tensor(1)).log_partition())(targets)
    assert torch.equal(padded, CTC(torch.zeros(4, 3), torch.tensor([1])).log_partition().expand(2))


@pytest.mark.parametrize("wrong", [3, -1])
def test_hmm_observations_out_of_range_give_nan_under_vmap(wrong: int) -> None:
    start, moves = torch.full((2,), 0.5).log(), torch.full((2, 2), 0.5).log()
    shown = torch.tensor([[0.8, 0.1, 0.1], [0.1, 0.1, 0.8]]).log()
    seen = torch.tensor([[0, 2], [0, wrong]])
    found = torch.vmap(lambda x: LinearChain.hmm(start, moves, shown, x).log_partition())(seen)
    assert found.isnan().tolist() == [False, True]


def test_tags_out_of_range_have_no_parts_and_no_score() -> None:
    chain, tags = LinearChain(torch.zeros(3, 2), torch.zeros(2, 2)), torch.tensor([0, 5, 1])
    for method in (chain.score, chain.log_prob, chain.parts, chain.pairs):
        with pytest.raises(DataError, match="Tags must be below k = 2, got 5"):
            method(tags)
    several = torch.stack((tags, torch.tensor([0, 1, 1])))
    assert torch.vmap(lambda y: chain.score(y[None])[0])(several).tolist() == [-math.inf, 0.0]


@pytest.mark.parametrize("rank", [-5, -2, 3])
def test_ranks_below_minus_one_are_impossible(rank: int) -> None:
    grammar = LowRankPCFG(*drawn(1, [(2, 2)], [(2, 3), (3, 4), (3, 4), (2,)]))
    tree = grammar.argmax()
    assert grammar.score(tree).isfinite().all()
    wrong = tree.clone()
    wrong[0, 0, 3] = rank
    assert grammar.score(wrong).tolist() == [-math.inf]
    wrong = tree.clone()
    wrong[0, 1, 3] = -2  # a word has no rank, which is -1
    assert grammar.score(wrong).tolist() == [-math.inf]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("non-projective", "paths", "cyclic-paths")])
def test_total_broadcasts_several_values(kind: str) -> None:
    make, own, shared = KINDS[kind]
    structure = make(*drawn(2, own, shared))
    assert isinstance(structure, SemiringDistribution)
    tensors = zip(structure.score_tensors(), structure.ranks, strict=True)
    numbers = [None if x is None else torch.randn(5, 1, *x.shape[x.dim() - rank :]).double() for x, rank in tensors]
    values = structure.with_score_tensors(numbers)
    log_z, mean = structure.total(ExpectationSemiring(), values)
    assert torch.allclose(log_z, structure.log_partition().expand(5, 2))
    for i in range(5):
        one = structure.with_score_tensors([None if x is None else x[i] for x in numbers])
        assert torch.allclose(mean[i], structure.expectation(one))
        assert torch.allclose(
            structure.total(SecondOrderExpectationSemiring(), one, values)[3][i], structure.variance(one)
        )


def test_values_whose_batch_does_not_broadcast_raise() -> None:
    chain, values = LinearChain(torch.zeros(2, 3, 2)), LinearChain(torch.zeros(3, 3, 2))
    for query in (chain.expectation, chain.variance, lambda x: chain.total(ExpectationSemiring(), x)):
        with pytest.raises(ShapeError, match=r"must broadcast, got \[2\] and \[3\].*Give the axis"):
            query(values)
