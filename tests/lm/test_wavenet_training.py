"""WaveNets learn: processes of known entropy, conditions that determine the next level, and reproducible windows."""

from __future__ import annotations

import itertools
import math

import numpy as np
import torch

from catena.data.recordings import Recordings, WindowPlan
from catena.lm.wavenet import WaveNet
from catena.lm.wavenet_build import build_wavenet
from catena.lm.wavenet_config import WaveNetConfig

SMALL = {"d": 16, "d_skip": 16, "n_layers": 2, "n_blocks": 1, "n_levels": 4}


def second_order_chain(seed: int) -> tuple[np.ndarray, np.ndarray, float]:
    """p(next | the two before) over 4 levels, the stationary distribution of pairs, and the entropy rate in bits."""
    generator = np.random.default_rng(seed)
    p = generator.dirichlet(np.full(4, 0.5), size=(4, 4))
    pairs = np.full((4, 4), 1 / 16)
    for _ in range(500):
        pairs = np.einsum("ab,abc->bc", pairs, p)
    entropy = -sum(
        pairs[a, b] * p[a, b, c] * math.log2(p[a, b, c])
        for a, b, c in itertools.product(range(4), repeat=3)
        if p[a, b, c]
    )
    return p, pairs, entropy


def sample_chains(p: np.ndarray, n: int, length: int) -> list[np.ndarray]:
    """``n`` sequences of the process, without their first 20 levels."""
    generator = np.random.default_rng(0)
    levels = np.zeros((n, length + 20), np.uint8)
    for t in range(2, length + 20):
        edges = p[levels[:, t - 2], levels[:, t - 1]].cumsum(axis=1)
        levels[:, t] = (edges[:, :3] <= generator.random((n, 1))).sum(axis=1)
    return list(levels[:, 20:])


def train(model: WaveNet, recordings: Recordings, n_steps: int, speakers: bool = False) -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, n_steps)
    batches = (
        plan.batch(i)
        for epoch in itertools.count(1)
        for plan in [WindowPlan(recordings, field=model.field, n_targets=250, batch_size=8, epoch=epoch)]
        for i in range(len(plan))
    )
    for batch in itertools.islice(batches, n_steps):
        inputs, targets = (torch.from_numpy(x).long() for x in (batch.inputs, batch.targets))
        known = torch.from_numpy(recordings.speakers[batch.recordings]) if speakers else None
        loss = model.loss(inputs, targets, torch.from_numpy(batch.mask), model.condition(known))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()


def test_second_order_process_is_learned_to_its_entropy() -> None:
    p, pairs, entropy = second_order_chain(1)
    recordings = Recordings.from_levels(sample_chains(p, 100, 600), n_levels=4)
    torch.manual_seed(0)
    model = build_wavenet(WaveNetConfig(**SMALL))
    train(model, recordings, 300)
    contexts = torch.tensor(list(itertools.product(range(4), repeat=2)))
    past = torch.randint(4, (16, 20), generator=torch.Generator().manual_seed(3))
    ids = torch.cat((past, contexts), dim=1) + model.first
    state = model.eval().extend(model.start(16), ids, torch.full((16,), 22))
    q = model.log_probs(state)[:, model.first :].double().view(4, 4, 4) / math.log(2)
    bits = -(pairs[:, :, None] * p * q.numpy()).sum()
    assert entropy - 1e-9 <= bits < entropy + 0.02


def test_speaker_that_determines_the_level_is_learned() -> None:
    single = [np.full(1, speaker, np.uint8) for speaker in range(4)]
    recordings = Recordings.from_levels(single * 50_000, [0, 1, 2, 3] * 50_000, n_levels=4)
    torch.manual_seed(0)
    model = build_wavenet(WaveNetConfig(**SMALL, d_speaker=4), n_speakers=4)
    train(model, recordings, 60, speakers=True)
    log_probs = model.eval().log_probs(model.begin(torch.arange(4)))[:, model.first :]
    assert log_probs.argmax(dim=1).tolist() == [0, 1, 2, 3]
    assert log_probs.diagonal().exp().min() > 0.8


def test_periodic_sound_is_predicted_and_continued() -> None:
    period = np.rint(7.5 + 7.4 * np.sin(2 * np.pi * np.arange(8) / 8 + 0.3)).astype(np.uint8)
    recordings = Recordings.from_levels([np.tile(np.roll(period, shift), 100) for shift in range(8)], n_levels=16)
    torch.manual_seed(0)
    model = build_wavenet(WaveNetConfig(**{**SMALL, "n_levels": 16, "n_layers": 3}))
    train(model, recordings, 150)
    model.eval()
    prompt = torch.from_numpy(np.tile(period, 3)).long()[None]
    state = model.extend(model.start(1), prompt + model.first, torch.tensor([24]))
    scores = model.score(state, prompt + model.first, torch.tensor([24]))
    assert -scores.mean() / math.log(2) < 0.3
    assert model.generate(state, 24, temperature=0.0)[0].tolist() == prompt[0].tolist()
