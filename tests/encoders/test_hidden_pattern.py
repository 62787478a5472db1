"""A network finds a hidden pattern only if its receptive field covers it."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from catena.data.samples.patterns import hide_patterns
from catena.encoders.build import build_encoder
from catena.encoders.config import ConvolutionConfig, EncoderConfig, RecurrentConfig
from catena.encoders.sound import SoundNetwork

PATTERN = (3, 1, 4, 1)


def one_hot(n: int, length: int, seed: int, n_after: int | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    data = hide_patterns(n, length, PATTERN, 6, n_after=n_after, seed=seed)
    return F.one_hot(torch.from_numpy(data.symbols), 6).float(), torch.from_numpy(data.labels).float()


def train(config: EncoderConfig, steps: int) -> SoundNetwork:
    network = SoundNetwork(build_encoder(config, 6), 1, "log_sum_exp")
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
    x, y = one_hot(1024, 10, seed=1)
    for step in range(steps):
        rows = torch.arange(step * 64, step * 64 + 64) % len(x)
        loss = F.binary_cross_entropy_with_logits(network(x[rows]).scores[:, 0], y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    network.pooling = "max"
    return network.eval()


@torch.no_grad()
def accuracy(network: SoundNetwork, n_after: int | None = None) -> float:
    x, y = one_hot(2000, 10 if n_after is None else 6 + n_after, seed=2, n_after=n_after)
    return ((network(x).scores[:, 0] > 0) == y.bool()).float().mean().item()


@pytest.mark.parametrize(("window", "field"), [(3, 3), (5, 5)])
def test_accuracy_is_bounded_by_the_part_of_the_pattern_that_is_seen(window: int, field: int) -> None:
    """With f of k symbols in view, at most (1 + f / k) / 2 are correct, up to sampling."""
    found = accuracy(train(ConvolutionConfig(windows=(window,), filters=24), steps=150))
    bound = (1 + min(field, len(PATTERN)) / len(PATTERN)) / 2
    assert found < bound + 0.04
    assert found > bound - 0.08


def test_maximum_over_time_does_not_forget() -> None:
    network = train(RecurrentConfig(cell="elman", d=32, bidirectional=False), steps=300)
    assert accuracy(network, n_after=0) > 0.95
    assert accuracy(network, n_after=30) > 0.95
