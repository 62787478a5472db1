"""Laws of all picture encoders. A test class defines the fixture ``make``, which returns a function that builds one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from safetensors.torch import load, save

from catena.encoders.image_base import ImageEncoder
from catena.errors import ShapeError

SIZE = (32, 32)
CLOSE = {"rtol": 0.0, "atol": 1e-10}


def batch(encoder: ImageEncoder, b: int = 3) -> torch.Tensor:
    return torch.randn(b, encoder.c_in, *SIZE, dtype=torch.float64)


class ImageEncoderLaws:
    """Inherit, and define the fixture ``make``."""

    @pytest.fixture
    def encoder(self, make: Callable[[], ImageEncoder]) -> ImageEncoder:
        return make().double().eval()

    def test_shapes(self, encoder: ImageEncoder) -> None:
        x = batch(encoder)
        grid = encoder.encode_grid(x)
        assert grid.shape[:2] == (3, encoder.d_map)
        assert encoder(x).shape == (3, encoder.d_out)
        torch.testing.assert_close(encoder.pool(grid), encoder(x), **CLOSE)

    def test_picture_does_not_depend_on_its_batch(self, encoder: ImageEncoder) -> None:
        x, order = batch(encoder), torch.tensor([2, 0, 1])
        y = encoder(x)
        torch.testing.assert_close(encoder(x[order]), y[order], **CLOSE)
        for i in range(3):
            torch.testing.assert_close(encoder(x[i : i + 1]), y[i : i + 1], **CLOSE)

    def test_gradients_reach_every_parameter_and_pixel_row(self, encoder: ImageEncoder) -> None:
        x = batch(encoder).requires_grad_()
        y = encoder.train()(x)
        (y * torch.randn_like(y)).sum().backward()
        for name, parameter in encoder.named_parameters():
            assert parameter.grad is not None, name
            assert (parameter.grad != 0).any(), name
        assert x.grad is not None
        assert (x.grad != 0).any(dim=-1).all()

    def test_saving_and_loading_is_identity(self, make: Callable[[], ImageEncoder]) -> None:
        encoder, other = make().double(), make().double()
        encoder.train()(batch(encoder))  # moves the running statistics
        other.load_state_dict(load(save(encoder.state_dict())))
        x = batch(encoder)
        assert torch.equal(encoder.eval()(x), other.eval()(x))

    def test_mixed_precision_is_close(self, make: Callable[[], ImageEncoder]) -> None:
        encoder = make().eval()
        x = batch(encoder).float()
        with torch.autocast("cpu", torch.bfloat16):
            y = encoder(x)
        exact = encoder(x)
        assert (y.float() - exact).abs().max() < 0.05 * exact.abs().max() + 0.05

    def test_channels_last_gives_the_same_result(self, encoder: ImageEncoder) -> None:
        x = batch(encoder)
        torch.testing.assert_close(encoder(x.contiguous(memory_format=torch.channels_last)), encoder(x), **CLOSE)

    def test_wrong_number_of_channels_raises(self, encoder: ImageEncoder) -> None:
        with pytest.raises(ShapeError, match=rf"the pictures must have size {encoder.c_in} on axis 'c'.*, got 5"):
            encoder(torch.zeros(1, 5, *SIZE, dtype=torch.float64))
