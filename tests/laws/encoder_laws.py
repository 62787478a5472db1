"""Laws of all encoders.

A test class defines the fixture ``make``, which returns a function that builds the encoder. ``CausalEncoderLaws`` adds
that outputs do not depend on later inputs.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from safetensors.torch import load, save
from torch import Tensor

from catena.encoders.base import Encoder
from catena.errors import ShapeError

LENGTHS = torch.tensor([4, 7, 1, 6])
CLOSE = {"rtol": 0.0, "atol": 1e-10}


def batch(encoder: Encoder, t: int = 7) -> Tensor:
    return torch.randn(len(LENGTHS), t, encoder.d_in, dtype=torch.float64)


def fill_padding(x: Tensor, lengths: Tensor, value: float) -> Tensor:
    padded = torch.arange(x.shape[1]) >= lengths[:, None]
    return x.masked_fill(padded[..., None], value)


class EncoderLaws:
    """Inherit, and define the fixture ``make``."""

    @pytest.fixture
    def encoder(self, make: Callable[[], Encoder]) -> Encoder:
        return make().double().eval()

    def test_output_is_zero_at_padding(self, encoder: Encoder) -> None:
        y = encoder(batch(encoder), LENGTHS)
        assert y.shape == (4, 7, encoder.d_out)
        for row, n in zip(y, LENGTHS.tolist(), strict=True):
            assert (row[n:] == 0).all()
            assert (row[:n] != 0).any(dim=1).all()

    @pytest.mark.parametrize("value", [0.0, 1e6, float("nan")])
    def test_padding_values_change_neither_outputs_nor_gradients(self, encoder: Encoder, value: float) -> None:
        x = batch(encoder)
        results = []
        for filled in (x, fill_padding(x, LENGTHS, value)):
            encoder.zero_grad()
            y = encoder(filled, LENGTHS)
            y.square().sum().backward()
            results.append([y, *(p.grad for p in encoder.parameters() if p.requires_grad)])
        torch.testing.assert_close(results[0], results[1], **CLOSE)

    def test_more_padding_does_not_change_outputs(self, encoder: Encoder) -> None:
        x = batch(encoder)
        longer = torch.cat((x, torch.randn(4, 3, encoder.d_in, dtype=x.dtype)), dim=1)
        torch.testing.assert_close(encoder(longer, LENGTHS)[:, :7], encoder(x, LENGTHS), **CLOSE)

    def test_batched_equals_single(self, encoder: Encoder) -> None:
        x = batch(encoder)
        y = encoder(x, LENGTHS)
        for i, n in enumerate(LENGTHS.tolist()):
            alone = encoder(x[i : i + 1, :n], LENGTHS[i : i + 1])
            torch.testing.assert_close(y[i : i + 1, :n], alone, **CLOSE)

    def test_batch_order_is_kept(self, encoder: Encoder) -> None:
        x, order = batch(encoder), torch.tensor([2, 0, 3, 1])
        torch.testing.assert_close(encoder(x[order], LENGTHS[order]), encoder(x, LENGTHS)[order], **CLOSE)

    def test_mixed_precision_is_close(self, make: Callable[[], Encoder]) -> None:
        encoder = make().eval()
        x = batch(encoder).float()
        with torch.autocast("cpu", torch.bfloat16):
            y = encoder(x, LENGTHS)
        y.float().sum().backward()
        assert (y.float() - encoder(x, LENGTHS)).abs().max() < 0.1

    def test_empty_sequence_gives_zeros_and_does_not_change_other_rows(self, encoder: Encoder) -> None:
        x = batch(encoder).requires_grad_()
        y = encoder(x, torch.tensor([4, 0, 1, 6]))
        y.square().sum().backward()
        assert (y[1] == 0).all()
        assert x.grad is not None
        assert x.grad.isfinite().all()
        torch.testing.assert_close(y[[0, 2, 3]], encoder(x, LENGTHS)[[0, 2, 3]], **CLOSE)
        assert encoder(x[:, :0], torch.zeros(4, dtype=torch.long)).shape == (4, 0, encoder.d_out)
        assert (encoder(x, torch.zeros(4, dtype=torch.int32)) == 0).all()

    def test_gradients_reach_every_parameter_and_every_real_position(self, encoder: Encoder) -> None:
        x = batch(encoder).requires_grad_()
        y = encoder(x, LENGTHS)
        (y * torch.randn_like(y)).sum().backward()
        for name, parameter in encoder.named_parameters():
            if parameter.requires_grad:
                assert parameter.grad is not None, name
                assert (parameter.grad != 0).any(), name
        assert x.grad is not None
        reached = (x.grad != 0).any(dim=-1)
        assert reached.tolist() == (torch.arange(7) < LENGTHS[:, None]).tolist()

    def test_saving_and_loading_is_identity(self, make: Callable[[], Encoder]) -> None:
        torch.manual_seed(1)
        encoder, other = make().eval(), make().eval()
        x = batch(encoder).float()
        other.load_state_dict(load(save(encoder.state_dict())))
        assert torch.equal(encoder(x, LENGTHS), other(x, LENGTHS))

    def test_single_precision_is_kept_and_close_to_double(self, encoder: Encoder) -> None:
        x = batch(encoder)
        exact = encoder(x, LENGTHS)
        assert exact.dtype == torch.float64
        rough = encoder.float()(x.float(), LENGTHS.int())
        assert rough.dtype == torch.float32
        torch.testing.assert_close(rough.double(), exact, rtol=1e-4, atol=1e-5)

    def test_input_of_wrong_size_raises(self, encoder: Encoder) -> None:
        with pytest.raises(ShapeError, match=f"must have size .* on axis 'd_in'.*, got {encoder.d_in + 1}"):
            encoder(torch.zeros(1, 2, encoder.d_in + 1).double(), torch.tensor([2]))

    def test_without_lengths_all_positions_are_real(self, encoder: Encoder) -> None:
        x = batch(encoder)
        assert torch.equal(encoder(x), encoder(x, torch.full((4,), 7)))

    @pytest.mark.parametrize("wrong", [-1, 8])
    def test_lengths_above_the_input_raise(self, encoder: Encoder, wrong: int) -> None:
        with pytest.raises(ShapeError, match=rf"lengths must be from 0 to 7, .*, got {wrong}\."):
            encoder(batch(encoder), torch.tensor([4, wrong, 1, 6]))


class CausalEncoderLaws(EncoderLaws):
    """Laws of encoders whose outputs do not depend on later inputs."""

    def test_outputs_do_not_depend_on_later_inputs(self, encoder: Encoder) -> None:
        x, lengths = batch(encoder), torch.full((4,), 7)
        y = encoder(x, lengths)
        for i in range(6):
            changed = x.clone()
            changed[:, i + 1 :] = torch.randn_like(changed[:, i + 1 :])
            torch.testing.assert_close(encoder(changed, lengths)[:, : i + 1], y[:, : i + 1], **CLOSE)


def sees_the_future(encoder: Encoder) -> bool:
    """Whether the first output depends on the last input."""
    x, lengths = batch(encoder), torch.full((4,), 7)
    changed = x.clone()
    changed[:, -1] += 1.0
    return not torch.allclose(encoder(changed, lengths)[:, 0], encoder(x, lengths)[:, 0])
