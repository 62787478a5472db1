"""Chains, segmentations, trees and grammars compared with other libraries: values and gradients.

Needs the peers' virtual environment; what is not installed there is skipped.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from catena.structure.chain import LinearChain
from catena.structure.pcfg import PCFG
from catena.structure.semimarkov import SemiMarkov
from catena.structure.tree import SpanTree

pytestmark = pytest.mark.peers


def inputs() -> list[Tensor]:
    torch.manual_seed(3)
    return [torch.randn(s, dtype=torch.float64, requires_grad=True) for s in ((3, 6, 4), (4, 4), (4,), (4,))]


def test_chain_loss_gradients_and_argmax_equal_pytorch_crf() -> None:
    torchcrf = pytest.importorskip("torchcrf")
    emissions, transitions, start, end = inputs()
    layer = torchcrf.CRF(4, batch_first=True).double()
    layer.transitions.data, layer.start_transitions.data, layer.end_transitions.data = (
        transitions.data,
        start.data,
        end.data,
    )
    lengths = torch.tensor([6, 2, 4])
    mask = torch.arange(6) < lengths[:, None]
    tags = torch.randint(0, 4, (3, 6))
    theirs = layer(emissions, tags, mask, reduction="none")
    expected = torch.autograd.grad(theirs.sum(), (emissions, *(p for p in layer.parameters())))
    chain = LinearChain(emissions, transitions, start, end, lengths=lengths)
    found = torch.autograd.grad(chain.log_prob(tags).sum(), (emissions, start, end, transitions))
    assert torch.allclose(chain.log_prob(tags), theirs)
    by_shape = [expected[0], layer.start_transitions, layer.end_transitions, layer.transitions]
    names = {id(p): g for p, g in zip(layer.parameters(), expected[1:], strict=True)}
    for ours, parameter in zip(found[1:], by_shape[1:], strict=True):
        assert torch.allclose(ours, names[id(parameter)])
    assert torch.allclose(found[0], expected[0])
    best = chain.argmax()
    assert [row[row >= 0].tolist() for row in best] == layer.decode(emissions, mask)


def test_chain_queries_equal_torch_struct() -> None:
    torch_struct = pytest.importorskip("torch_struct")
    emissions, transitions, _, _ = inputs()
    chain = LinearChain(emissions, transitions)
    edges = transitions.T + emissions[:, 1:, :, None]
    edges = torch.cat((edges[:, :1] + emissions[:, 0, None, None, :], edges[:, 1:]), dim=1)
    theirs = torch_struct.LinearChainCRF(edges)
    assert torch.allclose(chain.log_partition(), theirs.partition)
    assert torch.allclose(chain.pair_marginals()[:, 1:].transpose(-1, -2), theirs.marginals)
    assert torch.allclose(chain.entropy(), theirs.entropy)
    assert torch.equal(chain.argmax(), torch_struct.LinearChainCRF.struct.from_parts(theirs.argmax)[0])


def drawn(*shape: int) -> Tensor:
    torch.manual_seed(sum(shape))
    return torch.randn(shape, dtype=torch.float64, requires_grad=True)


def test_semimarkov_log_partition_equals_torch_struct() -> None:
    torch_struct = pytest.importorskip("torch_struct")
    segments, transitions = drawn(2, 6, 3, 4), drawn(4, 4)
    # Theirs are [b, t - 1, length, to, from], lengths from 0, and the first label is scored by where it comes from.
    edges = (segments[:, :, :, :, None] + transitions.T).detach()
    edges[:, 0] = segments[:, 0, :, :, None].expand(-1, -1, -1, 4).detach()
    edges[:, 0, :, :, 1:] = -1e9
    edges = torch.cat((torch.full_like(edges[:, :, :1], -1e9), edges), dim=2)
    found = SemiMarkov(segments, transitions).log_partition()
    theirs = torch_struct.SemiMarkovCRF(edges).partition
    assert torch.allclose(found, theirs)


def test_span_tree_queries_equal_torch_struct() -> None:
    torch_struct = pytest.importorskip("torch_struct")
    scores = drawn(2, 5, 5, 3)
    tree, theirs = SpanTree(scores), torch_struct.TreeCRF(scores)
    assert torch.allclose(tree.log_partition(), theirs.partition)
    (grad,) = torch.autograd.grad(theirs.partition.sum(), scores)
    assert torch.allclose(tree.marginals(), grad)
    best = torch_struct.TreeCRF(scores.detach().clone()).argmax
    assert torch.allclose(tree.max(), (best * scores).sum((1, 2, 3)))


def test_pcfg_queries_equal_torch_struct() -> None:
    torch_struct = pytest.importorskip("torch_struct")
    inputs = words, rules, roots = drawn(2, 5, 3), drawn(2, 5, 5), drawn(2)
    scores = words, rules.expand(2, -1, -1, -1), roots.expand(2, -1)
    grammar = PCFG(*inputs)
    theirs = torch_struct.SentCFG(scores).partition
    assert torch.allclose(grammar.log_partition(), theirs)
    found, expected = (torch.autograd.grad(x.sum(), inputs) for x in (grammar.log_partition(), theirs))
    assert all(torch.allclose(a, b) for a, b in zip(found, expected, strict=True))
    plain = [x.detach().clone() for x in scores]
    parts = torch_struct.SentCFG(tuple(plain)).argmax
    best = torch.stack([(part * x).flatten(1).sum(1) for part, x in zip(parts[:3], plain, strict=True)]).sum(0)
    assert torch.allclose(grammar.max(), best)
