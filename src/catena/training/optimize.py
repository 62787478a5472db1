"""From gradients to new weights: optimizer, clipping, penalties, constraints, gradient scaling, schedules.

Each optimizer runs in the fastest exact form on its device: fused if torch has it. Epochs are handled elsewhere;
the learning rate is an argument of each step.

Tested in tests/training/test_optimize.py, test_schedule.py and test_eager_optimizers.py.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.utils import clip_grad_value_, clip_grads_with_norm_, get_total_norm
from torch.optim import SGD, Adagrad, Adam, AdamW, Optimizer

from catena.errors import ConfigError
from catena.registry import did_you_mean
from catena.training.adadelta import Adadelta
from catena.training.average import Averaging, MeanOfLast, MovingAverage, NoAverage, TriggeredAverage
from catena.training.config import ENDING_SCHEDULES, TrainingConfig

_NORMALIZATIONS = (nn.LayerNorm, nn.RMSNorm, nn.GroupNorm, nn.modules.batchnorm._NormBase)


class GradientUpdater:
    """Accumulates gradients and takes optimizer steps.

    :meth:`backward` is called for each batch of a step, then :meth:`step` once.
    """

    def __init__(self, settings: TrainingConfig, model: nn.Module, device: torch.device) -> None:
        named = {name: p for name, p in model.named_parameters() if p.requires_grad}
        if not named:
            raise ConfigError(
                "The model has nothing to train because every parameter is frozen. Unfreeze some parameters."
            )
        self.settings = settings
        self.device = device
        self.names = list(named)
        self.parameters = list(named.values())
        self.decayed = [p for name, p in named.items() if name in decayed_names(model, settings.no_decay)]
        self.bounded = _bounded(named, settings)
        slow = [p for name, p in named.items() if _matches(name, settings.slow_params)]
        if settings.slow_params and not slow:
            raise ConfigError(
                f"slow_params = {', '.join(settings.slow_params)} matches no weight of the model. Set it to some of "
                f"{', '.join(dict.fromkeys(name.split('.')[0] + '.*' for name in named))}."
            )
        self.optimizer = build_optimizer(settings, self.parameters, self.decayed, device, slow)
        self.dtype = autocast_dtype(settings.precision, device)
        self.scaler = torch.amp.GradScaler(device.type, enabled=self.dtype == torch.float16)

    def precision(self) -> AbstractContextManager[None]:
        """The context of the forward pass."""
        if self.settings.precision == "tf32" and self.device.type == "cuda":
            return shorter_products()
        if self.dtype is None:
            return nullcontext()
        return torch.autocast(self.device.type, dtype=self.dtype)

    def backward(self, loss: Float[Tensor, ""]) -> None:
        """Add the gradient of a loss to the accumulated gradients."""
        self.scaler.scale(loss).backward() if self.scaler.is_enabled() else loss.backward()

    def step(self, rate: float, weight: float = 1.0) -> None:
        """Take one step with this learning rate along the gradients times ``weight``, and clear them."""
        for group in self.optimizer.param_groups:
            group["lr"] = rate * group["rate_factor"]
        if self.scaler.is_enabled():
            self.scaler.unscale_(self.optimizer)
        self._shape_gradients(weight)
        if self.scaler.is_enabled():
            self.scaler.step(self.optimizer)
            self.scaler.update()
        else:
            self.optimizer.step()
        # Fused optimizers do not increase version counters, so copies of weights in searches would look current.
        torch.autograd.graph.increment_version(self.parameters)
        for bounded in self.bounded:
            bound_rows(bounded, self.settings.max_norm or 0.0)
        self.optimizer.zero_grad(set_to_none=True)

    def _shape_gradients(self, weight: float) -> None:
        settings = self.settings
        if weight != 1.0:
            torch._foreach_mul_([p.grad for p in self.parameters if p.grad is not None], weight)
        if settings.clip_value:
            clip_grad_value_(self.parameters, settings.clip_value)
        if settings.clip_norm:
            _clip_norm(self.parameters, settings.clip_norm)
        if settings.l1:
            for p in self.decayed:
                if p.grad is not None:
                    p.grad.add_(p.detach().sign(), alpha=settings.l1)

    # --- for checkpoints ------------------------------------------------------------------------------------

    def tensors(self) -> dict[str, Tensor]:
        """The optimizer's tensors, by parameter name and key."""
        state = self.optimizer.state_dict()["state"]
        return {
            f"{name}/{key}": torch.as_tensor(value)
            for place, name in self._places()
            for key, value in state.get(place, {}).items()
            if value is not None
        }

    def numbers(self) -> dict[str, Any]:
        """The other state needed to resume: the optimizer's name and the gradient scale."""
        return {"optimizer": self.settings.optimizer, "scaler": self.scaler.state_dict()}

    def load(self, tensors: Mapping[str, Tensor], numbers: Mapping[str, Any]) -> None:
        """Restore the state from the tensors and values of a checkpoint."""
        if numbers["optimizer"] != self.settings.optimizer:
            raise ConfigError(
                f"optimizer must be {numbers['optimizer']!r} to resume the run, got {self.settings.optimizer!r}. Set "
                f"it back, or start a new run with --init-from."
            )
        state: dict[int, dict[str, Tensor]] = {}
        for place, name in self._places():
            prefix = f"{name}/"
            own = {k.removeprefix(prefix): t for k, t in tensors.items() if k.startswith(prefix)}
            if own:
                state[place] = own
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": state, "param_groups": groups})
        if self.scaler.is_enabled():
            self.scaler.load_state_dict(dict(numbers["scaler"]))

    def _places(self) -> Iterator[tuple[int, str]]:
        """The index of each parameter in the optimizer's list, and its name."""
        name_of = {id(p): name for name, p in zip(self.names, self.parameters, strict=True)}
        everything = (p for group in self.optimizer.param_groups for p in group["params"])
        return ((place, name_of[id(p)]) for place, p in enumerate(everything))


@contextmanager
def shorter_products() -> Iterator[None]:
    """Context in which products of float32 matrices on a GPU use TF32 tensor cores."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def build_optimizer(
    settings: TrainingConfig,
    parameters: Iterable[nn.Parameter],
    decayed: Iterable[nn.Parameter],
    device: torch.device,
    slow: Iterable[nn.Parameter] = (),
) -> torch.optim.Optimizer:
    """The optimizer of the config, with weight decay only for the parameters in ``decayed``.

    The key ``rate_factor`` of a group is the factor of its learning rate: ``slow_factor`` for the parameters in
    ``slow``, otherwise 1.
    """
    pulled, slowed = {id(p) for p in decayed}, {id(p) for p in slow}
    parameters = list(parameters)
    groups = [
        {
            "params": [p for p in parameters if (id(p) in pulled) == is_pulled and (id(p) in slowed) == is_slow],
            "weight_decay": settings.weight_decay if is_pulled else 0.0,
            "rate_factor": settings.slow_factor if is_slow else 1.0,
        }
        for is_slow in (False, True)
        for is_pulled in (True, False)
    ]
    groups = [group for group in groups if group["params"]]
    rate, eps, betas = settings.learning_rate or 0.0, settings.eps or 0.0, settings.betas or (0.0, 0.0)
    # Measured on a table of 18,700 x 300, one core: fused Adam 3 ms instead of 21, Adagrad 2 instead of 17.
    fused = True if device.type in ("cpu", "cuda") else None
    match settings.optimizer:
        case "sgd":
            return without_compiler(SGD)(groups, lr=rate, momentum=settings.momentum or 0.0, fused=fused)
        case "adam":
            return without_compiler(Adam)(groups, lr=rate, betas=betas, eps=eps, fused=fused)
        case "adamw":
            return without_compiler(AdamW)(groups, lr=rate, betas=betas, eps=eps, fused=fused)
        case "adagrad":
            on_cpu = True if device.type == "cpu" else None
            return without_compiler(Adagrad)(groups, lr=rate, eps=eps, fused=on_cpu)
        case "adadelta":
            kind: type[Adadelta | torch.optim.Adadelta] = Adadelta if device.type == "cpu" else torch.optim.Adadelta
            return without_compiler(kind)(groups, lr=rate, rho=settings.rho or 0.0, eps=eps)


def decayed_names(model: nn.Module, spared: Iterable[str] = ()) -> set[str]:
    """The names of the parameters with weight decay: weights except normalization and ``spared`` patterns.

    A weight has two axes or more, and its name does not begin with ``bias``.
    """
    normal = {
        f"{prefix}.{name}" if prefix else name
        for prefix, module in model.named_modules()
        if isinstance(module, _NORMALIZATIONS)
        for name, _ in module.named_parameters(recurse=False)
    }
    patterns = tuple(spared)
    return {
        name
        for name, p in model.named_parameters()
        if p.ndim >= 2
        and name not in normal
        and not name.rpartition(".")[2].startswith("bias")
        and not _matches(name, patterns)
    }


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def bound_rows(weight: Float[Tensor, "n ..."], limit: float) -> None:
    """Rescale every row whose norm exceeds ``limit``. A row is everything at one index of axis 0."""
    with torch.no_grad():
        norms = torch.linalg.vector_norm(weight, dim=tuple(range(1, weight.ndim)), keepdim=True)
        weight.mul_(torch.where(norms > limit, limit / norms, 1.0))


def autocast_dtype(precision: str, device: torch.device) -> torch.dtype | None:
    """The dtype of the forward pass, or None for float32 throughout."""
    has_bf16 = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    if precision in ("float32", "tf32") or (precision == "auto" and not has_bf16):
        return None
    if precision == "fp16":
        if device.type != "cuda":
            raise ConfigError(f"precision = 'fp16' requires a CUDA GPU, got {device}. Use float32, bf16 or auto.")
        return torch.float16
    if device.type == "cuda" and not has_bf16:
        raise ConfigError(f"{torch.cuda.get_device_name(device)} does not support precision = 'bf16'. Use fp16.")
    return torch.bfloat16


def _bounded(named: Mapping[str, nn.Parameter], settings: TrainingConfig) -> list[nn.Parameter]:
    if settings.max_norm is None:
        return []
    weights = {name: p for name, p in named.items() if p.ndim >= 2}
    for pattern in settings.max_norm_params:
        if not any(fnmatchcase(name, pattern) for name in weights) and pattern not in _DEFAULT_BOUNDED:
            raise ConfigError(
                f"max_norm_params contains {pattern!r}, which matches no weight: {did_you_mean(pattern, weights)}"
            )
    found = [p for name, p in weights.items() if any(fnmatchcase(name, one) for one in settings.max_norm_params)]
    if not found:
        raise ConfigError(
            f"max_norm_params = {', '.join(settings.max_norm_params)} matches no weight of the model. Set it to some "
            f"of {', '.join(weights)}."
        )
    return found


_DEFAULT_BOUNDED = TrainingConfig.model_fields["max_norm_params"].default


def _clip_norm(parameters: Iterable[nn.Parameter], limit: float) -> None:
    kept = [p for p in parameters if p.grad is not None]
    norm = get_total_norm([p.grad for p in kept if p.grad is not None])
    if norm.device.type != "cpu" or norm > limit:  # on a GPU the comparison would synchronize
        clip_grads_with_norm_(kept, limit, norm)


# --- the optimizers of torch without its compiler ---------------------------------------------------------------------
#
# The methods of ``torch.optim`` are wrapped so that torch.compile does not trace them, and the first call of a wrapper
# imports the compiler: 1,055 modules, 1.2 s of CPU time. The classes made here call the wrapped functions directly;
# torch itself is not changed.


_Kind = TypeVar("_Kind", bound=Optimizer)
_WRAPPED = ("add_param_group", "zero_grad", "state_dict", "load_state_dict")


def without_compiler(kind: type[_Kind]) -> type[_Kind]:
    """A subclass of an optimizer class that computes the same and does not import torch's compiler.

    Its ``step`` is not differentiable, and torch.compile must not trace its methods.
    """
    methods = {name: inspect.unwrap(getattr(kind, name)) for name in _WRAPPED}
    step = inspect.unwrap(kind.step)
    return type(kind.__name__, (kind,), {**methods, "step": torch.no_grad()(step)})


# --- learning rate schedules ------------------------------------------------------------------------------------------


def factor(name: str, step: int, warmup: int, last: int | None) -> float:
    r"""The factor of the peak learning rate at a step.

    With s the number of the step (the first is 1), w ``warmup_steps`` and T the last step, it is

    =================  ===========================================================================
    in the warm-up     :math:`s / w`                          for s <= w, for every schedule
    constant           :math:`1`
    inverse_sqrt       :math:`\sqrt{\max(w, 1) / s}`          Vaswani et al. 2017, section 5.3
    linear             :math:`p`                              p = (T + 1 - s) / (T + 1 - w)
    cosine             :math:`(1 + \cos \pi (1 - p)) / 2`     Loshchilov & Hutter 2017, equation 5
    quarter_cosine     :math:`\cos \frac\pi 2 (1 - p)`        its first quarter
    plateau            :attr:`Plateau.reached`
    =================  ===========================================================================

    p decreases from 1 at the end of the warm-up to 0 one step after the last, so that no step has rate 0. Only
    schedules that end use ``last``.
    """
    if step <= warmup:
        return step / warmup
    if name == "inverse_sqrt":
        return math.sqrt(max(warmup, 1) / step)
    if name in ENDING_SCHEDULES:
        if last is None:
            raise ValueError(f"The {name} schedule requires the last step. Pass last.")
        left = max(0.0, (last + 1 - step) / (last + 1 - warmup)) if last >= warmup else 0.0
        if name == "quarter_cosine":
            return math.sin(math.pi / 2 * left)
        return left if name == "linear" else (1 + math.cos(math.pi * (1 - left))) / 2
    return 1.0


@dataclass
class Plateau:
    """Lowers the learning rate after ``patience`` evaluations without a new best."""

    factor: float
    patience: int
    reached: float = 1.0
    """The current factor of the learning rate."""
    waited: int = 0
    """Evaluations since the last new best, or since the rate was last lowered."""

    def evaluated(self, is_best: bool) -> None:
        """Receive the result of an evaluation."""
        self.waited = 0 if is_best else self.waited + 1
        if self.waited >= self.patience:
            self.reached *= self.factor
            self.waited = 0


@dataclass
class LearningRateSchedule:
    """The learning rate of every step of a run.

    With a time limit, s in :func:`factor` is at least 1 plus the elapsed fraction of the time times T - 1, so that p
    falls even if the time ends first.
    """

    settings: TrainingConfig
    last: int | None
    plateau: Plateau

    def rate(self, step: int, elapsed: float = 0.0) -> float:
        """The learning rate of a step.

        Args:
            step: the step; the first is 1.
            elapsed: the elapsed fraction of the time limit; 0 without a limit.
        """
        peak = self.settings.learning_rate
        assert peak is not None, "the settings fill it in"
        if self.last is not None and self.settings.schedule in ENDING_SCHEDULES and step > self.settings.warmup_steps:
            step = max(step, 1 + math.floor(min(elapsed, 1.0) * (self.last - 1)))
        now = peak * factor(self.settings.schedule, step, self.settings.warmup_steps, self.last)
        return now * self.plateau.reached

    def evaluated(self, is_best: bool) -> None:
        """Receive the result of an evaluation."""
        if self.settings.schedule == "plateau":
            self.plateau.evaluated(is_best)


def build_schedule(settings: TrainingConfig, last: int | None) -> LearningRateSchedule:
    """The schedule that the config selects. ``last`` is the last step, if known."""
    return LearningRateSchedule(settings, last, Plateau(settings.plateau_factor, settings.plateau_patience))


def build_averaging(settings: TrainingConfig, model: nn.Module) -> Averaging:
    """The averaging that the config selects."""
    if settings.triggered_average is not None:
        return TriggeredAverage(model, settings.triggered_average)
    if settings.ema is not None:
        return MovingAverage(model, settings.ema)
    return MeanOfLast(model, settings.average_last) if settings.average_last > 1 else NoAverage()
