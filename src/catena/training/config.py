"""The configs of training and of the machine, which do not import torch."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from catena.config import Config


class OptimizerDefaults(NamedTuple):
    """Default hyperparameters of an optimizer. None means that it does not have this hyperparameter."""

    learning_rate: float
    eps: float | None = None
    momentum: float | None = None
    betas: tuple[float, float] | None = None
    rho: float | None = None


_DEFAULTS = {
    "sgd": OptimizerDefaults(0.1, momentum=0.0),
    "adam": OptimizerDefaults(1e-3, eps=1e-8, betas=(0.9, 0.999)),
    "adamw": OptimizerDefaults(1e-3, eps=1e-8, betas=(0.9, 0.999)),
    "adagrad": OptimizerDefaults(0.05, eps=1e-10),
    "adadelta": OptimizerDefaults(1.0, eps=1e-6, rho=0.95),
}

ENDING_SCHEDULES = ("cosine", "quarter_cosine", "linear")
"""Schedules that depend on the last step."""

_EPOCHS = 20
"""Number of epochs if no limit is set."""

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def parse_duration(text: str) -> float:
    """A duration in seconds: "90", "90s", "5m", "1h30m", "1.5h".

    >>> parse_duration("1h30m")
    5400.0
    """
    parts = re.findall(r"(\d+(?:\.\d+)?)([smhd])", text.strip().lower())
    if parts and "".join(number + unit for number, unit in parts) == text.strip().lower().replace(" ", ""):
        return sum(float(number) * _UNITS[unit] for number, unit in parts)
    if re.fullmatch(r"\d+(\.\d+)?", text.strip()):
        return float(text)
    raise ValueError(f"max_time must be a duration, got {text!r}. Write it as 90s, 5m, 2h or 1h30m.")


def _number_as_text(value: Any) -> Any:
    return str(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value


def _check_duration(value: str) -> str:
    if parse_duration(value) <= 0:
        raise ValueError(f"max_time must be above 0, got {value!r}. Write it as 90s, 5m, 2h or 1h30m.")
    return value


Duration = Annotated[str, BeforeValidator(_number_as_text), AfterValidator(_check_duration)]
"""A duration above 0 as text for :func:`parse_duration`; a number counts seconds."""


class MachineConfig(Config):
    """The device and threads of a run."""

    device: str = "auto"
    """auto, cpu, cuda, cuda:1 or mps; auto takes a GPU if there is one."""
    threads: int | None = Field(None, gt=0)
    """CPU threads; default: all cores. Results are bit-identical only for the same number of threads."""


class TrainingConfig(Config):
    """How the model is trained."""

    optimizer: Literal["sgd", "adam", "adamw", "adagrad", "adadelta"] = "adam"
    """The optimizer."""
    learning_rate: float | None = Field(None, gt=0)
    """Peak learning rate, after the warm-up. If not set, the default of the optimizer."""
    momentum: float | None = Field(None, ge=0, lt=1)
    """Momentum of sgd."""
    betas: tuple[float, float] | None = None
    """Decay rates of adam and adamw for the running means of the gradient and of its square."""
    rho: float | None = Field(None, ge=0, lt=1)
    """Decay rate of adadelta's running means."""
    eps: float | None = Field(None, gt=0)
    """Small constant in the denominator of the optimizer, for numerical stability."""

    schedule: Literal["constant", "inverse_sqrt", "cosine", "quarter_cosine", "linear", "plateau"] = "constant"
    """Learning rate after the warm-up: constant; 1/sqrt(step); decay to zero after the last step by a cosine, by its
    first quarter, which stays high for longer, or linearly, and also with the time if max_time comes first; or plateau,
    which multiplies it by plateau_factor when the metric stops improving."""
    warmup_steps: int = Field(0, ge=0)
    """Steps in which the learning rate increases linearly to its peak."""
    plateau_factor: float = Field(0.5, gt=0, lt=1)
    """Factor of the learning rate on a plateau."""
    plateau_patience: int = Field(2, ge=1)
    """Evaluations without improvement that count as a plateau."""

    clip_norm: float = Field(5.0, ge=0)
    """Clip the norm of the whole gradient to this value. 0: no clipping."""
    clip_value: float = Field(0.0, ge=0)
    """Clip each component of the gradient to this absolute value. 0: no clipping."""
    accumulate: int = Field(1, ge=1)
    """Batches whose gradients are accumulated for one step."""
    precision: Literal["float32", "tf32", "bf16", "fp16", "auto"] = "float32"
    """Precision of the forward pass. auto: bf16 on a GPU that supports it, otherwise float32. tf32: float32 whose
    products on a GPU use a 10-bit mantissa, for recurrent networks, whose states bf16 would round."""

    weight_decay: float = Field(0.0, ge=0)
    """Weight decay, not applied to biases and normalization: decoupled from the gradient in adamw, an L2 penalty in the
    other optimizers."""
    l1: float = Field(0.0, ge=0)
    """L1 penalty on the same weights."""
    no_decay: tuple[str, ...] = ()
    """Patterns of parameter names without weight_decay and l1, such as "embedding.*"."""
    slow_params: tuple[str, ...] = ()
    """Patterns of the names of parameters with a lower learning rate, such as "encoder.*", for weights that an older
    run has trained."""
    slow_factor: float = Field(0.1, gt=0)
    """Factor of their learning rate."""
    max_norm: float | None = Field(None, gt=0)
    """After each step, rescale rows of the weights in max_norm_params whose norm exceeds this value."""
    max_norm_params: tuple[str, ...] = ("output.weight", "output.*.weight")
    """Patterns of parameter names for max_norm. Default: the output layer."""

    max_epochs: int | None = Field(None, ge=1)
    """Maximum number of epochs. If no other limit is set, 20."""
    max_steps: int | None = Field(None, ge=1)
    """Maximum number of optimizer steps."""
    max_time: Duration | None = None
    """Time limit for the whole training, such as 90s, 5m or 1h30m. Then the model is evaluated and saved."""
    eval_every: int | None = Field(None, ge=1)
    """Steps between evaluations. If not set, evaluate after each epoch."""
    patience: int = Field(5, ge=0)
    """Stop after this many evaluations without improvement. 0: never stop early."""
    stop_at: float | None = None
    """Stop when the metric reaches this value."""
    metric: str | None = None
    """Score that selects the best checkpoint. If not set, the task's own."""

    save_every: int | None = Field(None, ge=1)
    """Steps between checkpoints, in addition to one at each evaluation."""
    keep_best: int = Field(1, ge=1)
    """Number of best checkpoints to keep."""
    keep_last: int = Field(1, ge=1)
    """Number of newest checkpoints to keep."""
    ema: float | None = Field(None, gt=0, lt=1)
    """Decay of an exponential moving average of the weights, such as 0.999. The average is evaluated and saved."""
    average_last: int = Field(1, ge=1)
    """Evaluate and save the mean of the weights at the last N evaluations, including the current one."""

    triggered_average: int | None = Field(None, ge=1)
    """After this many evaluations in a row without a new best, evaluate and save the mean of the weights over all later
    steps (NT-ASGD)."""

    @property
    def max_seconds(self) -> float | None:
        """max_time in seconds."""
        return None if self.max_time is None else parse_duration(self.max_time)

    @field_validator("clip_norm", "clip_value", "patience", mode="before")
    @classmethod
    def _none_is_zero(cls, value: Any) -> Any:
        return 0 if value is None or str(value).lower() in ("none", "off") else value

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, data: Any) -> Any:
        """Set the defaults of the optimizer explicitly, so that the saved config contains them."""
        if not isinstance(data, dict):
            return data
        filled = dict(data)

        def value_of(key: str) -> Any:
            value = filled.get(key)
            return cls.model_fields[key].default if value is None else value

        if str(value_of("optimizer")) in _DEFAULTS:
            for key, value in _DEFAULTS[str(value_of("optimizer"))]._asdict().items():
                if value is not None and value_of(key) is None:
                    filled[key] = value
        if all(value_of(limit) is None for limit in ("max_epochs", "max_steps", "max_time")):
            filled["max_epochs"] = _EPOCHS
        return filled

    @model_validator(mode="after")
    def _fits_together(self) -> TrainingConfig:
        problems = [*self._optimizer_problems(), *self._length_problems()]
        if self.ema is not None and self.average_last > 1:
            problems.append(
                f"ema = {self.ema} and average_last = {self.average_last} cannot be combined. Remove one of them."
            )
        if self.triggered_average is not None and (self.ema is not None or self.average_last > 1):
            problems.append(
                f"triggered_average = {self.triggered_average} and {'average_last' if self.ema is None else 'ema'} "
                f"cannot be combined. Remove one of them."
            )
        if self.triggered_average is not None and 0 < self.patience <= self.triggered_average:
            problems.append(
                f"patience must be above triggered_average = {self.triggered_average}, got {self.patience}. Increase "
                f"patience."
            )
        if self.max_norm is not None and not self.max_norm_params:
            problems.append(f"max_norm = {self.max_norm} applies to no weights. Set max_norm_params.")
        if problems:
            raise ValueError(" ".join(problems))
        return self

    def _optimizer_problems(self) -> list[str]:
        takes = _DEFAULTS[self.optimizer]._asdict()
        problems = []
        for key in ("momentum", "betas", "rho", "eps"):
            if takes[key] is None and getattr(self, key) is not None:
                owners = [name for name, numbers in _DEFAULTS.items() if numbers._asdict()[key] is not None]
                problems.append(
                    f"{key} is an option of {' and '.join(owners)}, and optimizer is {self.optimizer!r}. Remove it."
                )
        if self.betas is not None and not all(0 <= beta < 1 for beta in self.betas):
            problems.append(f"betas must be at least 0 and below 1, got {list(self.betas)}. Use [0.9, 0.999].")
        return problems

    def _length_problems(self) -> list[str]:
        problems = []
        knows_the_end = self.max_epochs is not None or self.max_steps is not None
        if self.schedule in ENDING_SCHEDULES and not knows_the_end:
            problems.append(
                f"schedule = {self.schedule!r} needs the last step, which max_time does not determine. Set max_epochs "
                f"or max_steps, or use another schedule."
            )
        if self.max_steps is not None and self.warmup_steps > self.max_steps:
            problems.append(
                f"warmup_steps must be at most max_steps = {self.max_steps}, got {self.warmup_steps}. Reduce it, or "
                f"the learning rate never reaches its peak."
            )
        if self.schedule == "plateau" and 0 < self.patience <= self.plateau_patience:
            problems.append(
                f"patience must be above plateau_patience = {self.plateau_patience}, got {self.patience}. Increase "
                f"patience."
            )
        return problems
