"""Scores of sounds: the maximum over time of frame scores, padding laws, and streams."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from safetensors.torch import load, save

from catena.data.media_config import SoundConfig
from catena.encoders.config import ConvolutionConfig, DilatedConfig, RecurrentConfig, SoundEncoderConfig
from catena.encoders.sound import FeatureNorm, SoundNetwork, build_sound_network, frame_loss, pool_scores
from catena.errors import ShapeError
from catena.numerics import NEG_INF

FEATURES = SoundConfig(sample_rate=1000, n_mels=5, low=20)
LENGTHS = torch.tensor([9, 4, 1, 7])
CLOSE = {"rtol": 0.0, "atol": 1e-10}

ENCODERS: dict[str, SoundEncoderConfig] = {
    "tdnn": ConvolutionConfig(windows=(3,), filters=6, n_layers=3, norm="batch", residual=True),
    "dilated-tdnn": ConvolutionConfig(windows=(3,), filters=6, n_layers=3, dilations=(1, 2, 4)),
    "dilated": DilatedConfig(d=6, n_layers=3),
    "rnn": RecurrentConfig(cell="elman", d=6, bidirectional=False),
    "lstm-skip": RecurrentConfig(d=6, n_layers=2, connections="skip"),
}


def network(encoder: str = "tdnn", pooling: Any = "max", k: int = 3) -> SoundNetwork:
    return build_sound_network(ENCODERS[encoder], FEATURES, k, pooling).double().eval()


def sounds() -> torch.Tensor:
    return torch.randn(4, 9, 5, dtype=torch.float64)


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("pooling", ["max", "log_sum_exp", "mean", "last"])
def test_padding_and_batch_do_not_change_scores(encoder: str, pooling: str) -> None:
    net, x = network(encoder, pooling), sounds()
    output = net(x, LENGTHS)
    assert output.scores.shape == (4, 3)
    spoiled = x.masked_fill((torch.arange(9) >= LENGTHS[:, None])[..., None], math.nan)
    torch.testing.assert_close(net(spoiled, LENGTHS).scores, output.scores, **CLOSE)
    for i, n in enumerate(LENGTHS.tolist()):
        alone = net(x[i : i + 1, :n])
        torch.testing.assert_close(output.scores[i : i + 1], alone.scores, **CLOSE)
        torch.testing.assert_close(output.frames[i : i + 1, :n], alone.frames, **CLOSE)
        assert (output.frames[i, n:] == NEG_INF).all()
    order = torch.tensor([3, 1, 0, 2])
    torch.testing.assert_close(net(x[order], LENGTHS[order]).scores, output.scores[order], **CLOSE)


def test_poolings_equal_their_formulas() -> None:
    x = sounds()
    frames = network("tdnn", "max")(x, LENGTHS).frames
    mask = torch.arange(9) < LENGTHS[:, None]
    for i, n in enumerate(LENGTHS.tolist()):
        real = frames[i, :n].tolist()
        for k in range(3):
            values = [row[k] for row in real]
            wanted = {
                "max": max(values),
                "mean": sum(values) / n,
                "log_sum_exp": math.log(sum(math.exp(v) for v in values) / n),
            }
            for pooling, value in wanted.items():
                assert pool_scores(frames, mask, pooling)[i, k].item() == pytest.approx(value, abs=1e-12)  # type: ignore[arg-type]


def test_last_is_the_score_of_the_last_frame() -> None:
    output = network("rnn", "last")(sounds(), LENGTHS)
    for i, n in enumerate(LENGTHS.tolist()):
        torch.testing.assert_close(output.scores[i], output.frames[i, n - 1], **CLOSE)


def test_ends_reads_the_finished_state_of_both_directions() -> None:
    """The backward direction is finished at the first frame, so each direction depends on every frame."""
    net = build_sound_network(RecurrentConfig(d=6), FEATURES, 2, "ends").double().eval()
    x = sounds().requires_grad_()
    net(x, LENGTHS).scores[0].sum().backward()
    assert x.grad is not None
    assert (x.grad[0] != 0).any(dim=1).all()
    states = net.encoder(net.norm(x), LENGTHS)
    wanted = net.head(torch.cat((states[0, 8, :6], states[0, 0, 6:])))
    torch.testing.assert_close(net(x, LENGTHS).scores[0], wanted, **CLOSE)


def test_only_the_best_frame_gets_gradient_from_the_maximum() -> None:
    net = network("tdnn", "max", k=1)
    output = net(sounds(), LENGTHS)
    output.frames.retain_grad()
    output.scores.sum().backward()
    assert output.frames.grad is not None
    assert (output.frames.grad != 0).sum() == 4
    assert (output.frames.grad.argmax(1) == output.frames.argmax(1)).all()


def test_score_of_a_concatenation_is_the_larger_one_if_a_field_apart() -> None:
    """Exact for a network without memory, if a gap of one receptive field separates the two sounds."""
    net = build_sound_network(ConvolutionConfig(windows=(3,), filters=6, n_layers=2), FEATURES, 1).double().eval()
    one, two = torch.randn(2, 1, 9, 5, dtype=torch.float64)
    gap = torch.zeros(1, 5, 5, dtype=torch.float64)
    parts = [net(torch.cat((gap, x, gap), dim=1)).scores for x in (one, two)]
    whole = net(torch.cat((gap, one, gap, two, gap), dim=1)).scores
    torch.testing.assert_close(whole, torch.maximum(*parts), **CLOSE)


def test_sound_without_frames_scores_minus_infinity() -> None:
    for pooling in ("max", "log_sum_exp", "mean", "last"):
        net = network("tdnn", pooling)
        output = net(sounds(), torch.tensor([9, 0, 1, 7]))
        assert (output.scores[1] == NEG_INF).all()
        assert output.scores[[0, 2, 3]].isfinite().all()
        assert (net(sounds()[:, :0]).scores == NEG_INF).all()


def test_frame_loss_equals_plain_loops() -> None:
    frames = torch.randn(3, 4, 1, dtype=torch.float64)
    targets = torch.randint(0, 2, (3, 4, 1)).double()
    known = torch.rand(3, 4) < 0.5
    losses = []
    for i in range(3):
        for t in range(4):
            if known[i, t]:
                p = 1 / (1 + math.exp(-frames[i, t, 0]))
                losses.append(-math.log(p if targets[i, t, 0] else 1 - p))
    assert frame_loss(frames, targets, known).item() == pytest.approx(sum(losses) / len(losses), abs=1e-12)
    assert frame_loss(frames, targets, torch.zeros_like(known)).item() == 0


def test_feature_norm_centers_and_scales() -> None:
    norm = FeatureNorm(3)
    x = torch.randn(500, 3) * torch.tensor([1.0, 5.0, 0.0]) + torch.tensor([2.0, -3.0, 7.0])
    norm.fit(x)
    y = norm(x)
    torch.testing.assert_close(y.mean(0), torch.zeros(3), rtol=0, atol=1e-5)
    torch.testing.assert_close(y.std(0, correction=0), torch.tensor([1.0, 1.0, 0.0]), rtol=0, atol=1e-5)


@pytest.mark.parametrize("encoder", ENCODERS)
def test_saving_and_loading_is_identity(encoder: str) -> None:
    one, other = network(encoder), network(encoder)
    one.norm.fit(torch.randn(50, 5))
    other.load_state_dict(load(save(one.state_dict())))
    x = sounds()
    assert torch.equal(one(x, LENGTHS).scores, other(x, LENGTHS).scores)


def test_ends_needs_two_directions() -> None:
    with pytest.raises(ShapeError, match=r"d_in must be even for ends pooling.*, got 7\. Use a bidirectional"):
        build_sound_network(RecurrentConfig(d=7, bidirectional=False), FEATURES, 2, "ends")
