"""Optimizers equal their formulas; clipping, penalties and constraints change only what they should."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn

from catena.errors import ConfigError
from catena.training.config import TrainingConfig
from catena.training.optimize import GradientUpdater, autocast_dtype, bound_rows, decayed_names, shorter_products
from tests.oracle import optimizers as oracle
from tests.training.tiny import TinyModel

CPU = torch.device("cpu")
GRADIENTS = [0.5, -0.25, 0.125, 2.0, -1.0, 0.0, 0.75]


class OneWeight(nn.Module):
    def __init__(self, value: float) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.full((1, 1), value, dtype=torch.float64))


def updated(settings: TrainingConfig, start: float = 0.8) -> float:
    """The weight after steps along the gradients: the loss w g has the gradient g."""
    model = OneWeight(start)
    updater = GradientUpdater(settings, model, CPU)
    for gradient in GRADIENTS:
        updater.backward((model.w * gradient).sum())
        updater.step(settings.learning_rate or 0.0)
    return model.w.item()


def make(**values: Any) -> TrainingConfig:
    return TrainingConfig(**{"clip_norm": 0, **values})


@pytest.mark.parametrize("decay", [0.0, 0.3])
def test_optimizer_equals_formula(decay: float) -> None:
    sgd = updated(make(optimizer="sgd", learning_rate=0.1, momentum=0.9, weight_decay=decay))
    assert sgd == pytest.approx(oracle.sgd(0.8, GRADIENTS, 0.1, 0.9, decay), abs=1e-10)
    adam = updated(make(optimizer="adam", learning_rate=0.1, betas=(0.8, 0.95), eps=1e-3, weight_decay=decay))
    assert adam == pytest.approx(oracle.adam(0.8, GRADIENTS, 0.1, 0.8, 0.95, 1e-3, decay), abs=1e-10)
    adamw = updated(make(optimizer="adamw", learning_rate=0.1, betas=(0.8, 0.95), eps=1e-3, weight_decay=decay))
    expected = oracle.adam(0.8, GRADIENTS, 0.1, 0.8, 0.95, 1e-3, decay, decoupled=True)
    assert adamw == pytest.approx(expected, abs=1e-10)
    adagrad = updated(make(optimizer="adagrad", learning_rate=0.1, eps=1e-3, weight_decay=decay))
    assert adagrad == pytest.approx(oracle.adagrad(0.8, GRADIENTS, 0.1, 1e-3, decay), abs=1e-10)
    adadelta = updated(make(optimizer="adadelta", learning_rate=0.7, rho=0.95, eps=1e-6, weight_decay=decay))
    assert adadelta == pytest.approx(oracle.adadelta(0.8, GRADIENTS, 0.7, 0.95, 1e-6, decay), abs=1e-10)


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw", "adagrad", "adadelta"])
def test_learning_rate_zero_changes_nothing(optimizer: str) -> None:
    settings = make(optimizer=optimizer)
    model = OneWeight(0.8)
    updater = GradientUpdater(settings, model, CPU)
    updater.backward(model.w.sum())
    updater.step(0.0)
    assert model.w.item() == 0.8
    updater.backward(model.w.sum())
    updater.step(0.5)
    assert model.w.item() < 0.8
    assert model.w.grad is None, "gradients must not leak into the next step"


def model_with_everything() -> nn.Module:
    return nn.ModuleDict(
        {
            "embedding": nn.Embedding(5, 4),
            "rnn": nn.LSTM(4, 3),
            "conv": nn.Conv1d(4, 2, 3),
            "norm": nn.LayerNorm([3, 2]),
            "batch_norm": nn.BatchNorm1d(3),
            "prelu": nn.PReLU(3),
            "output": nn.Linear(3, 2),
            "distances": nn.ParameterDict({"bias_table": torch.ones(2, 3)}),
        }
    )


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw", "adagrad", "adadelta"])
def test_step_increases_version_counters(optimizer: str) -> None:
    model = OneWeight(0.8)
    updater = GradientUpdater(make(optimizer=optimizer), model, CPU)
    before = model.w._version
    updater.backward(model.w.sum())
    updater.step(0.1)
    assert model.w._version > before


def test_decay_applies_to_weights_only() -> None:
    names = decayed_names(model_with_everything())
    wanted = {"embedding.weight", "rnn.weight_ih_l0", "rnn.weight_hh_l0", "conv.weight", "output.weight"}
    assert names == wanted
    assert decayed_names(model_with_everything(), ["rnn.*", "embedding.*"]) == {
        "conv.weight",
        "output.weight",
    }


def step_without_loss(settings: TrainingConfig, model: nn.Module) -> dict[str, torch.Tensor]:
    """One step in which only penalties and constraints can move a weight."""
    updater = GradientUpdater(settings, model, CPU)
    updater.backward(sum((p.sum() * 0.0 for p in model.parameters()), torch.zeros(())))
    updater.step(settings.learning_rate or 0.0)
    return {name: p.detach() for name, p in model.named_parameters()}


@pytest.mark.parametrize("penalty", ["weight_decay", "l1"])
def test_penalties_change_weights_only(penalty: str) -> None:
    model = TinyModel()
    nn.init.uniform_(model.output.bias, 0.5, 1.0)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    settings = make(optimizer="sgd", learning_rate=0.1, no_decay=("embedding.*",), **{penalty: 0.5})
    after = step_without_loss(settings, model)
    for name in ("output.bias", "norm.weight", "norm.bias", "embedding.weight"):
        assert torch.equal(after[name], before[name]), name
    w = before["output.weight"]
    pull = w if penalty == "weight_decay" else w.sign()
    torch.testing.assert_close(after["output.weight"], w - 0.1 * 0.5 * pull)


def gradient_after_clipping(settings: TrainingConfig, gradient: list[float]) -> list[float]:
    """What sgd at rate 1 moves a weight by is the gradient it was given."""
    model = nn.Linear(len(gradient), 1, bias=False)
    before = model.weight.detach().clone()
    updater = GradientUpdater(settings, model, CPU)
    updater.backward((model.weight * torch.tensor([gradient])).sum())
    updater.step(1.0)
    return (before - model.weight.detach())[0].tolist()


def test_clip_norm_shortens_long_gradients_only() -> None:
    settings = TrainingConfig(optimizer="sgd", clip_norm=1.0)
    assert gradient_after_clipping(settings, [3.0, 4.0]) == pytest.approx([0.6, 0.8], abs=1e-5)
    assert gradient_after_clipping(settings, [0.3, 0.4]) == pytest.approx([0.3, 0.4], abs=1e-7)
    off = TrainingConfig(optimizer="sgd", clip_norm=0)
    assert gradient_after_clipping(off, [3.0, 4.0]) == pytest.approx([3.0, 4.0], abs=1e-6)


def test_clip_norm_is_over_all_parameters() -> None:
    model = nn.ModuleDict({"a": nn.Linear(1, 1, bias=False), "b": nn.Linear(1, 1, bias=False)})
    a, b = model["a"].weight, model["b"].weight  # type: ignore[union-attr]
    before = a.item()  # type: ignore[operator]
    updater = GradientUpdater(TrainingConfig(optimizer="sgd", clip_norm=1.0), model, CPU)
    updater.backward((3 * a + 4 * b).sum())
    updater.step(1.0)
    assert before - a.item() == pytest.approx(0.6, abs=1e-5)  # type: ignore[operator]


def test_clip_value_bounds_each_component() -> None:
    settings = make(optimizer="sgd", clip_value=1.0)
    assert gradient_after_clipping(settings, [3.0, -4.0, 0.5]) == pytest.approx([1.0, -1.0, 0.5], abs=1e-6)


def test_max_norm_shortens_long_rows_only() -> None:
    weight = torch.tensor([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]])
    bound_rows(weight, 1.0)
    torch.testing.assert_close(weight, torch.tensor([[0.6, 0.8], [0.3, 0.4], [0.0, 0.0]]))
    filters = torch.full((2, 2, 2), 1.0).transpose(1, 2)
    bound_rows(filters, 1.0)
    torch.testing.assert_close(filters, torch.full((2, 2, 2), 0.5))


def test_max_norm_applies_to_output_layer_by_default() -> None:
    model = TinyModel()
    with torch.no_grad():
        model.output.weight.fill_(2.0)
        model.embedding.weight.fill_(2.0)
    after = step_without_loss(make(optimizer="sgd", max_norm=3.0), model)
    assert after["output.weight"].norm(dim=1).tolist() == pytest.approx([3.0, 3.0])
    assert after["embedding.weight"].eq(2.0).all()
    after = step_without_loss(make(optimizer="sgd", max_norm=1.0, max_norm_params=("emb*",)), model)
    assert after["embedding.weight"].norm(dim=1).tolist() == pytest.approx([1.0] * 12)
    assert after["output.weight"].norm(dim=1).tolist() == pytest.approx([3.0, 3.0])


def test_max_norm_params_without_match_raises_error() -> None:
    with pytest.raises(ConfigError, match=r"matches no weight: did you mean 'output\.weight'\?"):
        GradientUpdater(make(max_norm=1.0, max_norm_params=("output.weigth",)), TinyModel(), CPU)
    with pytest.raises(ConfigError, match=r"matches no weight of the model\. Set it to some of weight"):
        GradientUpdater(make(max_norm=1.0), nn.Linear(2, 2), CPU)


def test_slow_params_have_a_lower_rate() -> None:
    """One step of sgd moves each parameter by the rate times its gradient; 0.25 of it if its name matches."""
    model = nn.ModuleDict({"encoder": nn.Linear(2, 2), "output": nn.Linear(2, 2)})
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    settings = make(optimizer="sgd", learning_rate=0.5, slow_params=("encoder.*",), slow_factor=0.25)
    updater = GradientUpdater(settings, model, CPU)
    updater.backward(sum(p.sum() for p in model.parameters()))
    updater.step(0.5)
    moved = {name: (before[name] - p.detach()).flatten().tolist() for name, p in model.named_parameters()}
    assert moved == {
        "encoder.weight": pytest.approx([0.125] * 4),
        "encoder.bias": pytest.approx([0.125] * 2),
        "output.weight": pytest.approx([0.5] * 4),
        "output.bias": pytest.approx([0.5] * 2),
    }


def test_slow_params_without_match_raises_error() -> None:
    with pytest.raises(ConfigError, match=r"slow_params = enc\.\* matches no weight of the model.*output\.\*"):
        GradientUpdater(make(optimizer="sgd", slow_params=("enc.*",)), nn.ModuleDict({"output": nn.Linear(2, 2)}), CPU)


def test_weight_scales_gradient() -> None:
    model = OneWeight(1.0)
    updater = GradientUpdater(make(optimizer="sgd"), model, CPU)
    updater.backward(model.w.sum())
    updater.backward(model.w.sum() * 3)
    updater.step(1.0, weight=0.25)
    assert model.w.item() == 0.0


def test_frozen_parameters_are_unchanged() -> None:
    model = TinyModel()
    model.embedding.weight.requires_grad_(False)
    before = model.embedding.weight.clone()
    step_without_loss(make(optimizer="adamw", weight_decay=0.5), model)
    assert torch.equal(model.embedding.weight, before)
    with pytest.raises(ConfigError, match="every parameter is frozen"):
        GradientUpdater(make(), model.requires_grad_(False), CPU)


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw", "adagrad", "adadelta"])
def test_updater_resumes_from_checkpoint(optimizer: str) -> None:
    momentum = {"momentum": 0.9} if optimizer == "sgd" else {}
    settings = make(optimizer=optimizer, slow_params=("embedding.*",), weight_decay=0.01, **momentum)

    def steps(model: nn.Module, updater: GradientUpdater, seeds: range) -> None:
        for seed in seeds:
            ids = torch.randint(0, 12, (6, 5), generator=torch.Generator().manual_seed(seed))
            updater.backward(model(ids).square().mean())
            updater.step(0.1)

    whole = TinyModel(dropout=0)
    steps(whole, updater := GradientUpdater(settings, whole, CPU), range(3))
    half = TinyModel(dropout=0)
    half.load_state_dict(whole.state_dict())
    fresh = GradientUpdater(settings, half, CPU)
    tensors = {name: t.clone() for name, t in updater.tensors().items()}
    assert len(tensors) >= 5
    fresh.load(tensors, updater.numbers())
    steps(whole, updater, range(3, 6))
    steps(half, fresh, range(3, 6))
    for one, two in zip(whole.parameters(), half.parameters(), strict=True):
        assert torch.equal(one, two)


def test_resume_with_another_optimizer_raises_error() -> None:
    one, other = (GradientUpdater(make(optimizer=name), TinyModel(), CPU) for name in ("adam", "sgd"))
    with pytest.raises(ConfigError, match=r"optimizer must be 'adam' to resume the run, got 'sgd'"):
        other.load(one.tensors(), one.numbers())


def test_precision_follows_device() -> None:
    assert autocast_dtype("float32", CPU) is None
    assert autocast_dtype("auto", CPU) is None
    assert autocast_dtype("bf16", CPU) is torch.bfloat16
    with pytest.raises(ConfigError, match=r"precision = 'fp16' requires a CUDA GPU, got cpu"):
        autocast_dtype("fp16", CPU)


def test_bf16_forward_pass_keeps_float32_weights() -> None:
    model = TinyModel(dropout=0)
    updater = GradientUpdater(make(precision="bf16"), model, CPU)
    with updater.precision():
        assert model.output(torch.ones(1, 4)).dtype is torch.bfloat16
    assert all(p.dtype is torch.float32 for p in model.parameters())
    assert math.isfinite(model(torch.zeros(1, 5, dtype=torch.long)).sum().item())


def test_tf32_setting_is_restored() -> None:
    before = torch.backends.cuda.matmul.allow_tf32
    with shorter_products():
        assert torch.backends.cuda.matmul.allow_tf32
    assert torch.backends.cuda.matmul.allow_tf32 == before
    assert autocast_dtype("tf32", torch.device("cpu")) is None
