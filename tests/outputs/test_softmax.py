from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from catena.errors import ConfigError, DataError, ShapeError
from catena.kernels.softmax import ops as output_softmax
from catena.outputs.softmax import Softmax
from tests.laws.output_laws import CLOSE, D, N, OutputLaws, V, scramble
from tests.oracle.outputs import softmax_log_probs


class TestSoftmax(OutputLaws):
    def make(self, v: int, forbidden: Sequence[int] = ()) -> Softmax:
        return Softmax(D, v, forbidden=forbidden)


class TestSoftmaxInSmallBlocks(OutputLaws):
    """Three rows at a time, the last block shorter, with a temperature and without a bias."""

    @pytest.fixture(autouse=True)
    def small_blocks(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(output_softmax, "BLOCK_ON_CPU", 3 * V)

    def make(self, v: int, forbidden: Sequence[int] = ()) -> Softmax:
        return Softmax(D, v, bias=False, temperature=0.7, forbidden=forbidden)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_softmax_log_probs_equal_the_formula(bias: bool, temperature: float) -> None:
    layer = scramble(Softmax(D, V, bias, temperature).double())
    hidden = torch.randn(N, D, dtype=torch.float64)
    rows = None if layer.scores.bias is None else layer.scores.bias.tolist()
    wanted = softmax_log_probs(hidden.tolist(), layer.scores.weight.tolist(), rows, temperature)
    torch.testing.assert_close(layer.log_probs(hidden), torch.tensor(wanted, dtype=torch.float64), **CLOSE)


@pytest.mark.parametrize("rows", [1, 2, 3, N, 100])
def test_softmax_blocks_of_any_size_equal_torch(rows: int) -> None:
    hidden = torch.randn(N, D, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(V, D, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(V, dtype=torch.float64, requires_grad=True)
    targets = torch.randint(V, (N,))
    plain = functional.cross_entropy(functional.linear(hidden, weight, bias) * 0.3, targets)
    ours = output_softmax.softmax_loss(hidden, weight, bias, targets, 0.3, rows)
    torch.testing.assert_close(ours, plain, **CLOSE)
    inputs = (hidden, weight, bias)
    torch.testing.assert_close(torch.autograd.grad(ours, inputs), torch.autograd.grad(plain, inputs), **CLOSE)


def test_softmax_blocks_are_limited_and_even() -> None:
    cpu = torch.device("cpu")
    assert output_softmax.rows_in_block(2048, 50_000, cpu) == 256
    assert output_softmax.rows_in_block(300, 50_000, cpu) == 150
    assert output_softmax.rows_in_block(5, 10**9, cpu) == 1
    assert output_softmax.rows_in_block(0, 10, cpu) == 1


def test_softmax_autograd_stores_no_logits() -> None:
    """The backward pass keeps only the inputs, which exist anyway."""
    kept: list[int] = []
    layer, hidden = Softmax(D, 5000), torch.randn(400, D, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x.numel()) or x, lambda x: x):
        layer.loss(hidden, torch.randint(5000, (400,)))
        layer.log_prob(hidden, torch.randint(5000, (400,)))
    assert max(kept) <= 5000 * D


def test_softmax_half_precision_weight_gradient_is_summed_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    """In bfloat16 a sum of 1024 equal gradients would stop growing at 256 of them."""
    monkeypatch.setattr(output_softmax, "BLOCK_ON_CPU", 2)
    n = 1024
    hidden = torch.ones(n, 1, dtype=torch.bfloat16)
    layer = Softmax(1, 2, bias=True).bfloat16()
    with torch.no_grad():
        layer.scores.weight.zero_()
    layer.loss(hidden, torch.zeros(n, dtype=torch.long)).backward()
    assert layer.scores.weight.grad is not None
    assert layer.scores.weight.grad.flatten().tolist() == [-0.5, 0.5]
    assert layer.scores.bias is not None
    assert layer.scores.bias.grad is not None
    assert layer.scores.bias.grad.tolist() == [-0.5, 0.5]


def test_softmax_without_gradients_computes_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a gradient was computed")

    monkeypatch.setattr(output_softmax._Blocks, "_add_gradients", refuse)
    layer, hidden, targets = Softmax(D, V), torch.randn(N, D), torch.zeros(N, dtype=torch.long)
    with torch.no_grad():
        assert layer.loss(hidden, targets).isfinite()
    with torch.inference_mode():
        assert layer.loss(hidden, targets).isfinite()
    layer.requires_grad_(False)
    assert not layer.loss(hidden, targets).requires_grad


def test_softmax_computes_only_required_gradients() -> None:
    layer, hidden = Softmax(D, V), torch.randn(N, D)
    layer.scores.weight.requires_grad_(False)
    layer.loss(hidden, torch.zeros(N, dtype=torch.long)).backward()
    assert layer.scores.weight.grad is None
    assert layer.scores.bias is not None
    assert layer.scores.bias.grad is not None


@pytest.mark.parametrize("gap", [10.0, 60.0, 80.0, 100.0, 500.0])
def test_softmax_log_prob_of_tiny_probability_is_exact(gap: float) -> None:
    """In float32 exp(-gap) becomes inexact at 87 and zero at 104."""
    layer = Softmax(1, 3)
    with torch.no_grad():
        layer.scores.weight.copy_(torch.tensor([[gap], [0.0], [0.0]]))
    hidden, target = torch.ones(2, 1), torch.tensor([1, 0])
    rest = math.log1p(2 * math.exp(-gap))
    assert layer.log_prob(hidden, target).tolist() == pytest.approx([-gap - rest, -rest], rel=1e-6, abs=1e-6)
    assert layer.loss(hidden, target).item() == pytest.approx(gap / 2 + rest, rel=1e-6)


def test_tied_weights_are_one_parameter_with_both_gradients() -> None:
    embedding = nn.Embedding(V, D)
    layer = Softmax(D, V, tied=embedding.weight)
    assert layer.scores.weight is embedding.weight
    ids, targets = torch.tensor([1, 2]), torch.tensor([3, 4])
    layer.loss(embedding(ids), targets).backward()
    together = embedding.weight.grad
    assert together is not None
    hidden = embedding(ids).detach().requires_grad_()
    weight = embedding.weight.detach().clone().requires_grad_()
    assert layer.scores.bias is not None
    loss = functional.cross_entropy(functional.linear(hidden, weight, layer.scores.bias), targets)
    for_hidden, for_weight = torch.autograd.grad(loss, (hidden, weight))
    wanted = for_weight.index_add(0, ids, for_hidden)
    torch.testing.assert_close(together, wanted)


def test_softmax_loss_may_be_scaled_and_added() -> None:
    layer, hidden = scramble(Softmax(D, V).double()), torch.randn(N, D, dtype=torch.float64, requires_grad=True)
    targets = torch.randint(V, (N,))

    def gradient(loss: Tensor) -> Tensor:
        return torch.autograd.grad((loss * 3 + 1).square(), layer.scores.weight)[0]

    plain = functional.cross_entropy(functional.linear(hidden, layer.scores.weight, layer.scores.bias), targets)
    torch.testing.assert_close(gradient(layer.loss(hidden, targets)), gradient(plain), **CLOSE)


def test_softmax_invalid_arguments_raise() -> None:
    with pytest.raises(ShapeError, match=r"tied must have the shape \(v, d_in\) = \(11, 6\), got \(11, 5\)"):
        Softmax(D, V, tied=nn.Parameter(torch.zeros(V, 5)))
    with pytest.raises(ConfigError, match=r"temperature must be above 0, got 0\.0"):
        Softmax(D, V, temperature=0.0)
    with pytest.raises(ConfigError, match="leave at least one of v = 2 ids, got 2 ids"):
        Softmax(D, 2, forbidden=(0, 1))
    with pytest.raises(DataError, match="forbidden must be ids from 0 to 1, got 2"):
        Softmax(D, 2, forbidden=(2,))
    with pytest.raises(ShapeError, match=r"targets must have size .* on axis 'n'.*, got 3"):
        output_targets_of_another_length()


def output_targets_of_another_length() -> None:
    from catena.outputs.base import checked_targets

    checked_targets(Softmax(D, V), torch.zeros(2, D), torch.zeros(3, dtype=torch.long))


def test_softmax_few_rows_without_gradients_use_current_weights() -> None:
    layer, hidden = Softmax(6, 40, temperature=1.5, forbidden=(2,)), torch.randn(3, 6)
    for _ in range(2):
        wanted = layer.log_probs(hidden).detach()
        with torch.no_grad():
            torch.testing.assert_close(layer.log_probs(hidden), wanted)
            layer.scores.weight += 0.3 * torch.randn_like(layer.scores.weight)
    assert layer._rows is not None, "the compiled product was used"


class TestSmoothedSoftmax(OutputLaws):
    divergence = 0.05  # the learned distribution is smoother than the data

    def make(self, v: int, forbidden: Sequence[int] = ()) -> Softmax:
        return Softmax(D, v, temperature=0.7, forbidden=forbidden, smoothing=0.2)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("forbidden", [(), (0, 4)])
def test_smoothing_equals_torch_over_allowed_ids(bias: bool, forbidden: tuple[int, ...]) -> None:
    layer = scramble(Softmax(D, V, bias, 0.7, forbidden=forbidden, smoothing=0.1).double())
    hidden = torch.randn(N, D, dtype=torch.float64, requires_grad=True)
    kept = [i for i in range(V) if i not in forbidden]
    places = torch.randint(len(kept), (N,))
    rows = layer.scores.bias[kept] if layer.scores.bias is not None else None
    logits = functional.linear(hidden, layer.scores.weight[kept], rows) / 0.7
    plain = functional.cross_entropy(logits, places, label_smoothing=0.1)
    ours = layer.loss(hidden, torch.tensor(kept)[places])
    torch.testing.assert_close(ours, plain, **CLOSE)
    inputs = (hidden, *layer.parameters())
    torch.testing.assert_close(torch.autograd.grad(ours, inputs), torch.autograd.grad(plain, inputs), **CLOSE)


def test_smoothing_gradients_sum_to_zero_in_half_precision() -> None:
    torch.manual_seed(0)
    layer, hidden, targets = Softmax(8, 515, smoothing=0.1), torch.randn(64, 8) + 1, torch.randint(0, 515, (64,))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = layer.loss(hidden, targets)
    loss.backward()
    grads = (layer.scores.weight.grad, layer.scores.bias.grad)  # type: ignore[union-attr]
    for grad in grads:
        assert grad is not None
        assert grad.sum(0).abs().max() < 1e-5, "a constant added to all scores changes no probability"


@pytest.mark.parametrize(
    ("dtype", "v", "n"), [(torch.bfloat16, 515, 9000), (torch.float16, 515, 9000), (torch.float16, 70_000, 8)]
)
def test_smoothing_half_precision_is_summed_in_float32(dtype: torch.dtype, v: int, n: int) -> None:
    torch.manual_seed(0)
    layer, hidden, targets = Softmax(2, v, smoothing=0.3), torch.randn(n, 2, dtype=dtype), torch.randint(0, 9, (n,))
    assert layer.scores.bias is not None
    nn.init.uniform_(layer.scores.bias, -14, -6)
    loss = layer.to(dtype).loss(hidden, targets)  # the biases of all targets, and the ones of all words, exceed 65,504
    loss.backward()
    weight, bias = layer.scores.weight.detach().float(), layer.scores.bias.detach().float().requires_grad_()
    plain = functional.cross_entropy(functional.linear(hidden.float(), weight, bias), targets, label_smoothing=0.3)
    plain.backward()
    torch.testing.assert_close(loss, plain, rtol=1e-4, atol=0)
    torch.testing.assert_close(layer.scores.bias.grad.float(), bias.grad, rtol=0.01, atol=1e-5)  # type: ignore[union-attr]


def test_smoothing_out_of_range_raises() -> None:
    with pytest.raises(ConfigError, match="smoothing must be at least 0 and below 1, got 1"):
        Softmax(D, V, smoothing=1.0)


@pytest.mark.parametrize(("v", "bias"), [(11, True), (70, True), (300, False)])
def test_softmax_few_rows_equal_many_rows_in_single_precision(v: int, bias: bool) -> None:
    layer = scramble(Softmax(D, v, bias, forbidden=(0, 4)))
    hidden = 3 * torch.randn(9, D)
    with torch.no_grad():
        few = layer.log_probs(hidden)
    many = layer.double().log_probs(hidden.double())
    torch.testing.assert_close(few.double(), many, rtol=0.0, atol=1e-5)
    assert (few[:, [0, 4]] == -math.inf).all()


@pytest.mark.parametrize("forbidden", [(), (2,)])
def test_softmax_uses_a_changed_bias(forbidden: tuple[int, ...]) -> None:
    layer, hidden = Softmax(6, 40, forbidden=forbidden), torch.randn(3, 6)

    def seen() -> bool:
        with torch.no_grad():
            found = layer.log_probs(hidden)
        return torch.allclose(found, layer.log_probs(hidden).detach(), atol=1e-5)

    assert seen()
    with torch.no_grad():
        layer.scores.bias.add_(torch.randn(40))  # type: ignore[union-attr]
    assert seen(), "changed in place"
    layer.scores.bias = torch.nn.Parameter(torch.randn(40))
    assert seen(), "another one"
    layer.scores.bias.data = torch.randn(40)
    assert seen(), "other values"
