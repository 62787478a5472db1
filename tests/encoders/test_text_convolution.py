"""Convolution and max over time compared to plain loops, and the fast backward pass compared to torch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from catena.encoders.config import TextConvolutionConfig
from catena.encoders.layers import ACTIVATIONS, NONDECREASING
from catena.encoders.text_convolution import TextConvolution, _LargestWindow, build_text_convolution, largest_window
from catena.errors import ShapeError
from tests.oracle.convolution import convolve, k_largest

LENGTHS = torch.tensor([4, 7, 1, 6])


def build(d_in: int = 5, **options: object) -> TextConvolution:
    return build_text_convolution(TextConvolutionConfig(**{"filters": 6, **options}), d_in).double()


def batch(t: int = 7, d: int = 5) -> Tensor:
    return torch.randn(4, t, d, dtype=torch.float64)


def wanted_features(module: TextConvolution, x: Tensor, n: int, padding: str, k: int) -> np.ndarray:
    """The features of one text, window by window, in plain loops."""
    found = []
    for kernel, bias in zip(module.kernels, module.biases, strict=True):
        window = kernel.shape[0]
        before, places = (window - 1, n + window - 1) if padding == "wide" else ((window - 1) // 2, n)
        sums = convolve(x[:n].numpy(), kernel.detach().numpy(), bias.detach().numpy(), before, places)
        values = module.activation(torch.from_numpy(sums)).detach().numpy()
        columns = [k_largest(column, k) if k > 1 else [column.max()] for column in values.T]
        found.append(np.array(columns).T.ravel())
    return np.concatenate(found)


@pytest.mark.parametrize("padding", ["wide", "same"])
@pytest.mark.parametrize(
    ("activation", "k"), [("relu", 1), ("identity", 1), ("tanh", 1), ("abs", 1), ("gelu", 1), ("tanh", 3)]
)
def test_text_convolution_equals_plain_loops(padding: str, activation: str, k: int) -> None:
    module = build(windows=(1, 2, 3, 5, 9), padding=padding, activation=activation, k=k)
    x = batch()
    y = module(x, LENGTHS).detach().numpy()
    assert y.shape == (4, module.d_out) == (4, 5 * 6 * k)
    for i, n in enumerate(LENGTHS.tolist()):
        np.testing.assert_allclose(y[i], wanted_features(module, x[i], n, padding, k), atol=1e-12)


def results(x: Tensor, lengths: Tensor, wide: bool, kernels: list[Tensor], fast: bool) -> list[Tensor]:
    x = x.clone().requires_grad_()
    masked = x * (torch.arange(x.shape[1]) < lengths[:, None])[..., None]
    kernels = [kernel.clone().requires_grad_() for kernel in kernels]
    if fast:
        y = _LargestWindow.apply(masked, lengths, wide, *kernels)
    else:
        y = largest_window(masked, lengths, wide, kernels)
    weights = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view_as(y)
    (y * weights).sum().backward()
    return [y.detach(), x.grad, *(kernel.grad for kernel in kernels)]


@given(
    lengths=st.lists(st.integers(0, 6), min_size=1, max_size=4).filter(any),
    windows=st.lists(st.integers(1, 8), min_size=1, max_size=3),
    wide=st.booleans(),
    spare=st.integers(0, 2),
    seed=st.integers(0, 99),
)
def test_largest_window_fast_equals_reference(
    lengths: list[int], windows: list[int], wide: bool, spare: int, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    t = max(lengths) + spare
    x = torch.randn(len(lengths), t, 3, generator=generator, dtype=torch.float64)
    kernels = [torch.randn(w, 2, 3, generator=generator, dtype=torch.float64) for w in windows]
    fast, plain = (results(x, torch.tensor(lengths), wide, kernels, fast) for fast in (True, False))
    torch.testing.assert_close(fast, plain, atol=1e-12, rtol=0)


def test_largest_window_fast_is_close_in_single_precision() -> None:
    x, kernels = torch.randn(8, 12, 20), [torch.randn(w, 10, 20) for w in (3, 4, 5)]
    lengths = torch.full((8,), 12)
    torch.testing.assert_close(*(results(x, lengths, True, kernels, fast) for fast in (True, False)))


def test_largest_window_fast_computes_only_required_gradients() -> None:
    module = build()
    still = batch()
    module(still, LENGTHS).sum().backward()
    assert all(kernel.grad is not None for kernel in module.kernels)
    module.requires_grad_(False)
    moving = batch().requires_grad_()
    module(moving, LENGTHS).sum().backward()
    assert moving.grad is not None
    assert moving.grad.abs().sum() > 0


@pytest.mark.parametrize(
    "options",
    [
        {"activation": "identity"},
        {"activation": "tanh", "padding": "same"},
        {"activation": "swish"},
        {"activation": "tanh", "k": 2},
        {"activation": "tanh", "norm": "layer"},
    ],
    ids=str,
)
@pytest.mark.parametrize("value", [0.0, 1e6, float("nan")])
def test_text_convolution_ignores_padding(options: dict[str, object], value: float) -> None:
    module = build(**options).eval()
    x = batch()
    padded = torch.arange(9) >= LENGTHS[:, None]
    other = torch.cat((x, batch(2)), dim=1).masked_fill(padded[..., None], value).requires_grad_()
    y = module(other, LENGTHS)
    torch.testing.assert_close(y, module(x, LENGTHS), atol=1e-12, rtol=0)
    for i, n in enumerate(LENGTHS.tolist()):
        torch.testing.assert_close(y[i : i + 1], module(x[i : i + 1, :n], LENGTHS[i : i + 1]), atol=1e-12, rtol=0)
    y.square().sum().backward()
    assert other.grad is not None
    assert (other.grad[padded] == 0).all()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in module.parameters())


def test_text_convolution_ignores_windows_without_words() -> None:
    module = build(windows=(3,), activation="identity")
    with torch.no_grad():
        module.kernels[0].fill_(-1.0)
        module.biases[0].fill_(5.0)
    x = torch.ones(1, 4, 5, dtype=torch.float64)
    assert (module(x, torch.tensor([2])) == 5.0 - 5.0).all()  # one word of five ones; a window of zeros would give 5


@pytest.mark.parametrize("options", [{}, {"activation": "abs"}, {"k": 2}, {"norm": "batch"}])
def test_text_convolution_of_empty_text_is_zero(options: dict[str, object]) -> None:
    module = build(**options)
    x = batch().requires_grad_()
    y = module(x, torch.tensor([4, 0, 1, 0], dtype=torch.int32))
    assert (y[[1, 3]] == 0).all()
    assert (y[0] != 0).any()
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()
    assert (x.grad[1] == 0).all()
    assert torch.equal(module(x[:, :0], torch.zeros(4, dtype=torch.long)), torch.zeros(4, module.d_out).double())


@pytest.mark.parametrize("options", [{}, {"norm": "batch"}, {"activation": "prelu"}, {"k": 2}])
def test_text_convolution_all_parameters_get_gradients(options: dict[str, object]) -> None:
    module = build(filters=20, **options)
    y = module(batch(), LENGTHS)
    (y * torch.randn_like(y)).sum().backward()
    parameters = dict(module.named_parameters())
    assert parameters
    for name, parameter in parameters.items():
        assert parameter.grad is not None, name
        assert (parameter.grad != 0).any(), name


def test_text_convolution_equals_torch_with_copied_weights() -> None:
    module = TextConvolution(6, (3, 4, 5), 7)
    x = torch.randn(5, 8, 6)
    found = []
    for kernel, bias in zip(module.kernels, module.biases, strict=True):
        window = kernel.shape[0]
        convolution = nn.Conv1d(6, 7, window, padding=window - 1)
        with torch.no_grad():
            convolution.weight.copy_(kernel.permute(1, 2, 0))
            convolution.bias.copy_(bias)
        found.append(torch.relu(convolution(x.transpose(1, 2))).amax(dim=2))
    torch.testing.assert_close(module(x, torch.full((5,), 8)), torch.cat(found, dim=1), atol=1e-5, rtol=1e-5)


def test_monotonic_activations_are_monotonic() -> None:
    x = torch.linspace(-6, 6, 2001, dtype=torch.float64)
    for name in ACTIVATIONS:
        y = ACTIVATIONS[name]().double()(x).detach()
        if name in NONDECREASING:
            assert (y.diff() >= 0).all(), name
        elif name != "prelu":  # its parameter is learned, and may be negative
            assert (y.diff() < 0).any(), name


def test_text_convolution_bfloat16_autocast_uses_the_reference() -> None:
    module = TextConvolution(5, (2, 3), 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = module(torch.randn(4, 7, 5), LENGTHS)
    y.float().sum().backward()
    assert module.kernels[0].grad is not None
    assert module.kernels[0].grad.dtype == torch.float32


def test_text_convolution_vectors_of_wrong_size_raise() -> None:
    with pytest.raises(ShapeError, match=r"the input of the convolution must have size .* on axis 'd_in'.*, got 4"):
        build()(batch(d=4), LENGTHS)
