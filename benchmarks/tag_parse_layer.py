"""Training a BiLSTM-CRF: the cost of the CRF layer, compared with pytorch-crf's and with the network below.

    python benchmarks/tag_parse.py layer [--threads 1] [--rounds 7]

Batches of 32 sentences of 10 to 50 words, word vectors of size 100, a bidirectional LSTM of 200 units per direction, 22
tags (those of CoNLL-2000 chunking). *layer* is the loss and its gradient with respect to emissions and transitions;
*step* is a complete step of Adam, where "no CRF" predicts each tag independently.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import torch
from tag_parse import line, verdict
from torch import Tensor, nn

from catena.encoders.build import build_encoder
from catena.encoders.config import RecurrentConfig
from catena.structure.chain import LinearChain
from structure import installed, timed

B, T, K, D, UNITS, WORDS = 32, 50, 22, 100, 200, 20_000


def batch() -> tuple[Tensor, Tensor, Tensor]:
    """Return ids, tags and lengths of some sentences, the longest of T words."""
    torch.manual_seed(0)
    lengths = torch.randint(10, T + 1, (B,))
    lengths[0] = T
    return torch.randint(1, WORDS, (B, T)), torch.randint(0, K, (B, T)), lengths


def layers(tags: Tensor, lengths: Tensor) -> dict[str, Callable[[], Tensor]]:
    """Return runs of the loss of given emissions and its gradients."""
    inputs = [torch.randn(shape, requires_grad=True) for shape in ((B, T, K), (K, K), (K,), (K,))]
    mask = torch.arange(T) < lengths[:, None]

    def cleared(loss: Callable[[], Tensor], *leaves: Tensor) -> Callable[[], Tensor]:
        def run() -> Tensor:
            for leaf in leaves:
                leaf.grad = None
            value = loss()
            value.backward()
            return value.detach()

        return run

    runs = {
        "catena": cleared(lambda: -LinearChain(*inputs, lengths=lengths).log_prob(tags).sum(), *inputs),
        "softmax": cleared(
            lambda: nn.functional.cross_entropy(inputs[0][mask], tags[mask], reduction="sum"), inputs[0]
        ),
    }
    if installed("torchcrf"):
        from torchcrf import CRF

        crf = CRF(K, batch_first=True)
        crf.transitions.data, crf.start_transitions.data, crf.end_transitions.data = (x.data for x in inputs[1:])
        runs["pytorch-crf"] = cleared(lambda: -crf(inputs[0], tags, mask), inputs[0], *crf.parameters())
    return runs


class Network(nn.Module):
    """A network from words to emissions."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, D, padding_idx=0, sparse=False)
        self.encoder = build_encoder(RecurrentConfig(d=UNITS), D)
        self.output = nn.Linear(self.encoder.d_out, K)

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        return self.output(self.encoder(self.words(ids), lengths))


def steps(ids: Tensor, tags: Tensor, lengths: Tensor) -> dict[str, Callable[[], Tensor]]:
    """Return runs of a complete training step, with and without the CRF."""

    def step(loss: Callable[[Tensor], Tensor], *more: nn.Parameter) -> Callable[[], Tensor]:
        torch.manual_seed(1)
        network = Network()
        # Word vectors are not trained: Adam over all of them would hide the rest.
        learned = [p for name, p in network.named_parameters() if not name.startswith("words")]
        optimizer = torch.optim.Adam([*learned, *more], 1e-3)

        def run() -> Tensor:
            optimizer.zero_grad()
            value = loss(network(ids, lengths))
            value.backward()
            optimizer.step()
            return value.detach()

        return run

    scores = [nn.Parameter(torch.zeros(shape)) for shape in ((K, K), (K,), (K,))]
    crf = step(lambda emissions: -LinearChain(emissions, *scores, lengths=lengths).log_prob(tags).mean(), *scores)
    runs = {"no CRF": step(lambda emissions: emissions.mean()), "catena": crf}
    if installed("torchcrf"):
        from torchcrf import CRF

        layer, mask = CRF(K, batch_first=True), torch.arange(T) < lengths[:, None]
        runs["pytorch-crf"] = step(lambda emissions: -layer(emissions, tags, mask), *layer.parameters())
    return runs


def run(options: argparse.Namespace) -> None:
    ids, tags, lengths = batch()
    print(f"\nlayer: B{B} T{T} K{K}, BiLSTM of {UNITS} units per direction, {options.threads} thread(s)")
    found = layers(tags, lengths)
    if "pytorch-crf" in found:
        gap = abs(found["catena"]().item() - found["pytorch-crf"]().item())
        line("layer: the losses differ by", {"": f"{gap:.2g}"})
    times = measured("layer", found, options.rounds)
    if "pytorch-crf" in times:
        ratio, of_least = (times["pytorch-crf"][i] / times["catena"][i] for i in range(2))
        line("layer: pytorch-crf / catena", {"": f"{ratio:.1f}x, of least {verdict(of_least, 15)}"})
    times = measured("step", steps(ids, tags, lengths), options.rounds)
    ratio, of_least = (times["catena"][i] / times["no CRF"][i] for i in range(2))
    line("step: with the CRF / no CRF", {"": f"{ratio:.2f}x, of least {verdict(of_least, 1.1, at_least=False)}"})


def measured(what: str, runs: dict[str, Callable[[], Tensor]], rounds: int) -> dict[str, tuple[float, float]]:
    """Return (median, least) milliseconds of each, alternating; the least is the least disturbed one."""
    times = timed(runs, rounds)
    for name, (median, least) in times.items():
        line(f"{what}: {name}", {"ms": f"{median:.2f}", "least": f"{least:.2f}"})
    return times
