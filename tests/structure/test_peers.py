"""Chains compared with strangers where they are right: values and gradients. Needs the peers' virtual environment."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from catena.structure.chain import LinearChain

pytestmark = pytest.mark.peers


def inputs() -> list[Tensor]:
    torch.manual_seed(3)
    return [torch.randn(s, dtype=torch.float64, requires_grad=True) for s in ((3, 6, 4), (4, 4), (4,), (4,))]


def test_pytorch_crf_has_the_same_loss_gradients_and_best_tags() -> None:
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


def test_torch_struct_has_the_same_sum_marginals_entropy_and_best_tags() -> None:
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
