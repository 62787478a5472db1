"""The masked language model: what is masked and how, and predictions from both sides."""

from __future__ import annotations

import pytest
import torch

from catena.data.vocabulary import Vocabulary
from catena.encoders.config import RecurrentConfig
from catena.lm.base import SPECIALS
from catena.lm.neural_build import build_masked
from catena.lm.neural_config import LSTMLMConfig
from catena.lm.neural_masked import MASK_SYMBOL, MaskedLanguageModel


def model(words: int = 12, d: int = 16) -> MaskedLanguageModel:
    vocabulary = Vocabulary([f"w{i}" for i in range(words)], specials=(*SPECIALS, MASK_SYMBOL))
    settings = LSTMLMConfig(
        embedding={"d": d, "scale": 0.5},
        encoder=RecurrentConfig(d=d, bidirectional=True),
        dropout_input=0.0,
        dropout_output=0.0,
    )
    return build_masked(settings, vocabulary, [1] * len(vocabulary))


def test_hide_fractions_match_the_paper_without_padding() -> None:
    masked = model(words=500)
    ids = torch.full((40, 200), 7)
    lengths = torch.tensor([200] * 39 + [100])
    shown, chosen = masked.hide(ids, lengths, 0.15)
    assert not chosen[-1, 100:].any()
    assert torch.equal(shown[~chosen], ids[~chosen])
    n = int(chosen.sum())
    assert n / int(lengths.sum()) == pytest.approx(0.15, abs=0.015)
    hidden = shown[chosen]
    assert float((hidden == masked.mark).float().mean()) == pytest.approx(0.8, abs=0.05)
    assert float((hidden == 7).float().mean()) == pytest.approx(0.1, abs=0.03)
    others = hidden[(hidden != 7) & (hidden != masked.mark)]
    assert int(others.min()) >= 5, "no special token replaces a word"


def test_hide_masks_a_position_in_every_sequence() -> None:
    masked = model()
    _, chosen = masked.hide(torch.full((50, 3), 6), torch.tensor([1, 3] * 25), 0.01)
    assert (chosen.sum(1) >= 1).all()


def test_masked_lm_predicts_from_both_sides() -> None:
    masked = model()
    generator = torch.Generator().manual_seed(3)
    optimizer = torch.optim.Adam(masked.parameters(), 0.02)
    lengths = torch.full((32,), 3)

    def batch() -> torch.Tensor:
        left, right = torch.randint(2, (2, 32), generator=generator)
        return torch.stack((9 + left, 5 + 2 * left + right, 9 + right), dim=1)

    def loss() -> torch.Tensor:
        ids = batch()
        shown = ids.clone()
        shown[:, 1] = masked.mark
        return masked.output.loss(masked.hidden(shown, lengths)[:, 1], ids[:, 1])

    for _ in range(60):
        optimizer.zero_grad()
        loss().backward()
        optimizer.step()
    assert loss().item() < 0.2, "from one side only it is log 2 = 0.69"
