"""How to train, as a typed config. Imports no torch."""

from __future__ import annotations

import re
from typing import Any, Literal, NamedTuple

from pydantic import Field, field_validator, model_validator

from catena.config import Config


class OptimizerDefaults(NamedTuple):
    """The numbers an optimizer takes, with values that suit it; None: it has no such number."""

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

_EPOCHS = 20
"""Passes over the data where no limit is set."""

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def parse_duration(text: str) -> float:
    """A span of time in seconds: "90", "90s", "5m", "1h30m", "1.5h".

    >>> seconds_of("1h30m")
    5400.0
    """
    parts = re.findall(r"(\d+(?:\.\d+)?)([smhd])", text.strip().lower())
    if parts and "".join(number + unit for number, unit in parts) == text.strip().lower().replace(" ", ""):
        return sum(float(number) * _UNITS[unit] for number, unit in parts)
    if re.fullmatch(r"\d+(\.\d+)?", text.strip()):
        return float(text)
    raise ValueError(f"max_time is {text!r}, which is no span of time: write it as 90s, 5m, 2h or 1h30m")


class TrainingConfig(Config):
    """How the model is trained."""

    optimizer: Literal["sgd", "adam", "adamw", "adagrad", "adadelta"] = "adam"
    """The optimizer."""
    learning_rate: float | None = Field(None, gt=0)
    """Size of the steps at its peak, after the warm-up; if not set, what suits the optimizer."""
    momentum: float | None = Field(None, ge=0, lt=1)
    """Momentum of sgd."""
    betas: tuple[float, float] | None = None
    """How slowly adam and adamw forget the gradient and its square."""
    rho: float | None = Field(None, ge=0, lt=1)
    """How slowly adadelta forgets."""
    eps: float | None = Field(None, gt=0)
    """The small number that keeps the optimizer from dividing by zero."""

    schedule: Literal["constant", "inverse_sqrt", "cosine", "linear", "plateau"] = "constant"
    """How the learning rate changes after the warm-up: not at all; as 1/sqrt(step); down a cosine or a line
    to zero after the last step; or by plateau_factor whenever the metric stands still."""
    warmup_steps: int = Field(0, ge=0)
    """Steps in which the learning rate grows from near zero to its peak."""
    plateau_factor: float = Field(0.5, gt=0, lt=1)
    """What the learning rate is multiplied by on a plateau."""
    plateau_patience: int = Field(2, ge=1)
    """Evaluations without improvement that make a plateau."""

    clip_norm: float = Field(5.0, ge=0)
    """The largest norm of the whole gradient; a longer one is shortened. 0: it is left alone."""
    clip_value: float = Field(0.0, ge=0)
    """The largest size of each number of the gradient. 0: they are left alone."""
    accumulate: int = Field(1, ge=1)
    """Batches whose gradients are added up for one step."""
    precision: Literal["float32", "tf32", "bf16", "fp16", "auto"] = "float32"
    """Numbers used in the forward pass. auto is bf16 on a GPU that has it, otherwise float32. tf32 keeps float32, of
    which products on a GPU read ten bits behind the point: for recurrent networks, whose states bf16 would round."""

    weight_decay: float = Field(0.0, ge=0)
    """Pull of the weights towards zero, never of biases and normalization: decoupled from the gradient in
    adamw, an L2 penalty in the others."""
    l1: float = Field(0.0, ge=0)
    """L1 penalty on the same weights."""
    no_decay: tuple[str, ...] = ()
    """Patterns of parameter names that weight_decay and l1 leave alone, such as "embedding.*"."""
    max_norm: float | None = Field(None, gt=0)
    """After each step, rows of the weights in max_norm_params that are longer than this are cut to it."""
    max_norm_params: tuple[str, ...] = ("output.weight", "output.*.weight")
    """Patterns of parameter names that max_norm holds for; by default the output layer."""

    max_epochs: int | None = Field(None, ge=1)
    """Passes over the training data, at most; if no other limit is set, 20."""
    max_steps: int | None = Field(None, ge=1)
    """Steps of the optimizer, at most."""
    max_time: str | None = None
    """Time for the whole training, such as 90s, 5m or 1h30m; at its end the model is evaluated and saved."""
    eval_every: int | None = Field(None, ge=1)
    """Steps between evaluations; if not set, after each epoch."""
    patience: int = Field(5, ge=0)
    """Evaluations without improvement after which training stops. 0: it does not stop early."""
    metric: str | None = None
    """The score that decides which checkpoint is best; if not set, the task's own."""

    save_every: int | None = Field(None, ge=1)
    """Steps between checkpoints, beside those at each evaluation."""
    keep_best: int = Field(1, ge=1)
    """Checkpoints with the best scores that are kept."""
    keep_last: int = Field(1, ge=1)
    """Newest checkpoints that are kept."""
    ema: float | None = Field(None, gt=0, lt=1)
    """Decay of an exponential moving average of the weights, such as 0.999, which is evaluated and saved."""
    average_last: int = Field(1, ge=1)
    """Evaluate and save the mean of the weights at this many evaluations, the present and those before."""

    triggered_average: int | None = Field(None, ge=1)
    """After this many evaluations in a row without a new best, evaluate and save the mean of the weights of all steps
    from there on (NT-ASGD)."""

    @property
    def max_seconds(self) -> float | None:
        """max_time in seconds."""
        return None if self.max_time is None else parse_duration(self.max_time)

    @field_validator("clip_norm", "clip_value", "patience", mode="before")
    @classmethod
    def _none_is_zero(cls, value: Any) -> Any:
        return 0 if value is None or str(value).lower() in ("none", "off") else value

    @field_validator("max_time", mode="before")
    @classmethod
    def _numbers_are_seconds(cls, value: Any) -> Any:
        return str(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value

    @field_validator("max_time")
    @classmethod
    def _is_a_span(cls, value: str | None) -> str | None:
        if value is not None and parse_duration(value) <= 0:
            raise ValueError(f"max_time is {value!r}, and must be longer than nothing")
        return value

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, data: Any) -> Any:
        """Put what suits the optimizer in place of what is not set, so that the saved config says it."""
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
                f"ema = {self.ema} and average_last = {self.average_last} are two ways to average the "
                f"weights: choose one"
            )
        if self.triggered_average is not None and (self.ema is not None or self.average_last > 1):
            problems.append(
                f"triggered_average = {self.triggered_average} and {'average_last' if self.ema is None else 'ema'} "
                f"are two ways to average the weights: choose one"
            )
        if self.triggered_average is not None and 0 < self.patience <= self.triggered_average:
            problems.append(
                f"patience = {self.patience} ends training before triggered_average = {self.triggered_average} "
                f"begins to average: make patience the larger"
            )
        if self.max_norm is not None and not self.max_norm_params:
            problems.append(f"max_norm = {self.max_norm} has no weights to hold for: name some in max_norm_params")
        if problems:
            raise ValueError("; ".join(problems))
        return self

    def _optimizer_problems(self) -> list[str]:
        takes = _DEFAULTS[self.optimizer]._asdict()
        problems = []
        for key in ("momentum", "betas", "rho", "eps"):
            if takes[key] is None and getattr(self, key) is not None:
                owners = [name for name, numbers in _DEFAULTS.items() if numbers._asdict()[key] is not None]
                problems.append(
                    f"{key} is a number of {' and '.join(owners)}, and optimizer is {self.optimizer!r}: leave it out"
                )
        if self.betas is not None and not all(0 <= beta < 1 for beta in self.betas):
            problems.append(f"betas = {list(self.betas)} must lie between 0 and 1, with 1 left out")
        return problems

    def _length_problems(self) -> list[str]:
        problems = []
        knows_the_end = self.max_epochs is not None or self.max_steps is not None
        if self.schedule in ("cosine", "linear") and not knows_the_end:
            problems.append(
                f"schedule = {self.schedule!r} needs to know the last step, which max_time alone does not "
                f"give: set max_epochs or max_steps, or take another schedule"
            )
        if self.max_steps is not None and self.warmup_steps > self.max_steps:
            problems.append(
                f"warmup_steps = {self.warmup_steps} is more than max_steps = {self.max_steps}: the learning "
                f"rate would never reach its peak"
            )
        if self.schedule == "plateau" and 0 < self.patience <= self.plateau_patience:
            problems.append(
                f"patience = {self.patience} ends training before plateau_patience = {self.plateau_patience} "
                f"lowers the learning rate: make patience the larger"
            )
        return problems
