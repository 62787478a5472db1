"""From gradients to new weights: optimizer, clipping, penalties, constraints, gradient scaling.

Each optimizer runs in the fastest exact form on its device: fused if torch has it. Epochs and schedules are handled
elsewhere; the learning rate is an argument of each step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from fnmatch import fnmatchcase
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.utils import clip_grad_value_, clip_grads_with_norm_, get_total_norm
from torch.optim import SGD, Adagrad, Adam, AdamW

from catena.errors import ConfigError
from catena.registry import did_you_mean
from catena.training.adadelta import Adadelta
from catena.training.config import TrainingConfig
from catena.training.eager_optimizers import without_compiler

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
        self.optimizer = build_optimizer(settings, self.parameters, self.decayed, device)
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
            group["lr"] = rate
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
) -> torch.optim.Optimizer:
    """The optimizer of the config, with weight decay only for the parameters in ``decayed``."""
    pulled = {id(p) for p in decayed}
    groups = [
        {"params": [p for p in parameters if id(p) in pulled], "weight_decay": settings.weight_decay},
        {"params": [p for p in parameters if id(p) not in pulled], "weight_decay": 0.0},
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
        and not any(fnmatchcase(name, pattern) for pattern in patterns)
    }


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
