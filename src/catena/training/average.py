"""Averages of weights over steps (EMA), over the last evaluations, or over checkpoint folders.

The average is evaluated and saved; training continues from the current weights.
"""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn

from catena.checkpoint import STATE, TRAINING, WEIGHTS, Checkpoint, open_checkpoint, write_checkpoint
from catena.errors import CheckpointError

WeightMap = dict[str, Tensor]


class Averaging(ABC):
    """The weights that are evaluated and saved instead of the model's current weights."""

    @abstractmethod
    def after_step(self) -> None:
        """Update the average after a step."""

    @abstractmethod
    def before_evaluation(self) -> None:
        """Update the average before an evaluation."""

    def evaluated(self, is_best: bool) -> None:
        """Receive the result of an evaluation."""
        return None

    @abstractmethod
    def weights(self) -> WeightMap | None:
        """The average, or None if the model's current weights are to be used."""

    @abstractmethod
    def held(self) -> Sequence[WeightMap]:
        """All weights that the average is made of or stored in."""

    def take(self, buffers: Mapping[str, Tensor]) -> None:
        """Store buffers that an evaluation of the average has changed."""
        for weights in self.held():
            for name, tensor in buffers.items():
                weights[name].copy_(tensor)

    @abstractmethod
    def tensors(self) -> WeightMap:
        """The tensors that a checkpoint must contain to resume the average."""

    @abstractmethod
    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore the average from the tensors of a checkpoint."""


class NoAverage(Averaging):
    """No averaging: the model's current weights."""

    def after_step(self) -> None:
        pass

    def before_evaluation(self) -> None:
        pass

    def weights(self) -> WeightMap | None:
        return None

    def held(self) -> Sequence[WeightMap]:
        return ()

    def tensors(self) -> WeightMap:
        return {}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        pass


class MovingAverage(Averaging):
    """Exponential moving average: after step n, average <- d average + (1 - d) weights.

    d is the smaller of ``decay`` and (1 + n) / (10 + n), so that the initial weights are forgotten quickly.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.steps = 0
        self.average = snapshot(model)
        distinct = {id(self.average[name]): (self.average[name], t) for name, t in model.state_dict().items()}
        self.real = [(kept, now) for kept, now in distinct.values() if now.is_floating_point()]
        self.other = [(kept, now) for kept, now in distinct.values() if not now.is_floating_point()]

    def after_step(self) -> None:
        self.steps += 1
        decay = min(self.decay, (1 + self.steps) / (10 + self.steps))
        torch._foreach_lerp_([kept for kept, _ in self.real], [now for _, now in self.real], 1 - decay)
        for kept, now in self.other:
            kept.copy_(now)

    def before_evaluation(self) -> None:
        pass

    def weights(self) -> WeightMap | None:
        return self.average

    def held(self) -> Sequence[WeightMap]:
        return (self.average,)

    def tensors(self) -> WeightMap:
        return {"steps": torch.tensor(self.steps), **{f"mean/{name}": t for name, t in self.average.items()}}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        self.steps = int(tensors["steps"])
        for name, tensor in self.average.items():
            tensor.copy_(tensors[f"mean/{name}"])


class MeanOfLast(Averaging):
    """The mean of the weights at the last ``n`` evaluations."""

    def __init__(self, model: nn.Module, n: int) -> None:
        self.model = model
        self.kept: deque[WeightMap] = deque(maxlen=n)

    def after_step(self) -> None:
        pass

    def before_evaluation(self) -> None:
        self.kept.append(snapshot(self.model))

    def weights(self) -> WeightMap | None:
        return mean(list(self.kept)) if self.kept else None

    def held(self) -> Sequence[WeightMap]:
        return tuple(self.kept)

    def tensors(self) -> WeightMap:
        return {f"{i}/{name}": t for i, kept in enumerate(self.kept) for name, t in kept.items()}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        self.kept.clear()
        for i in range(len(tensors) // len(self.model.state_dict())):
            weights = snapshot(self.model)
            for name, tensor in weights.items():
                tensor.copy_(tensors[f"{i}/{name}"])
            self.kept.append(weights)


class TriggeredAverage(Averaging):
    """The mean of the weights over all steps since ``n`` evaluations in a row brought no new best.

    Non-monotonically triggered averaging (Merity et al. 2018, algorithm 1; Polyak & Juditsky 1992). It averages out the
    noise that keeps plain steps away from the minimum.
    """

    def __init__(self, model: nn.Module, n: int) -> None:
        self.model, self.n = model, n
        self.waited = self.steps = 0
        self.begun = False
        self.average: WeightMap = {}

    def after_step(self) -> None:
        if not self.begun:
            return
        self.steps += 1
        if self.steps == 1:
            self.average = snapshot(self.model)
            return
        pairs = {id(kept): (kept, now) for kept, now in zip(self.average.values(), self._now(), strict=True)}
        real = [(kept, now) for kept, now in pairs.values() if now.is_floating_point()]
        torch._foreach_lerp_([kept for kept, _ in real], [now for _, now in real], 1 / self.steps)
        for kept, now in pairs.values():
            if not now.is_floating_point():
                kept.copy_(now)

    def _now(self) -> list[Tensor]:
        return [tensor.detach() for tensor in self.model.state_dict().values()]

    def before_evaluation(self) -> None:
        pass

    def evaluated(self, is_best: bool) -> None:
        self.waited = 0 if is_best else self.waited + 1
        self.begun = self.begun or self.waited >= self.n

    def weights(self) -> WeightMap | None:
        return self.average if self.steps else None

    def held(self) -> Sequence[WeightMap]:
        return (self.average,) if self.steps else ()

    def tensors(self) -> WeightMap:
        numbers = {"numbers": torch.tensor([self.waited, self.steps, int(self.begun)])}
        return {**numbers, **{f"mean/{name}": t for name, t in self.average.items()}}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        self.waited, self.steps, begun = tensors["numbers"].tolist()
        self.begun = bool(begun)
        if self.steps:
            self.average = snapshot(self.model)
            for name, tensor in self.average.items():
                tensor.copy_(tensors[f"mean/{name}"])


def snapshot(model: nn.Module) -> WeightMap:
    """A copy of all weights and buffers."""
    return copies(model.state_dict(keep_vars=True))


def copies(weights: Mapping[str, Tensor]) -> WeightMap:
    """Copies of tensors. Tied tensors are copied once."""
    made: dict[int, Tensor] = {}
    for tensor in weights.values():
        if id(tensor) not in made:
            made[id(tensor)] = tensor.detach().clone()
    return {name: made[id(tensor)] for name, tensor in weights.items()}


@contextmanager
def using(model: nn.Module, weights: WeightMap | None) -> Iterator[WeightMap]:
    """Context in which the model has other weights; None keeps its own.

    A buffer that is changed inside, such as the temperature that an evaluation fits, keeps its new value. The yielded
    dict contains these buffers at the end, so that :meth:`Averaging.take` can store them in the average.
    """
    changed: WeightMap = {}
    if weights is None:
        yield changed
        return
    own = snapshot(model)
    try:
        model.load_state_dict(weights)
        yield changed
    finally:
        parameters = {name for name, _ in model.named_parameters(remove_duplicate=False)}
        for name, tensor in model.state_dict().items():
            if name not in parameters and not torch.equal(tensor, weights[name]):
                changed[name] = tensor.clone()
        model.load_state_dict({**own, **changed})


def mean(several: Sequence[Mapping[str, Tensor]]) -> WeightMap:
    """The mean of weights by name, computed in double precision.

    Tensors that are not floating point are taken from the last one. Tied tensors stay tied.
    """
    means: dict[tuple[int, ...], Tensor] = {}
    places = {name: tuple(id(weights[name]) for weights in several) for name in several[-1]}
    for name, place in places.items():
        if place not in means:
            means[place] = _mean([weights[name] for weights in several])
    return {name: means[place] for name, place in places.items()}


def _mean(tensors: Sequence[Tensor]) -> Tensor:
    last = tensors[-1]
    if not last.is_floating_point():
        return last.clone()
    total = torch.zeros_like(last, dtype=torch.float64)
    for tensor in tensors:
        total += tensor
    return total.div_(len(tensors)).to(last.dtype)


def average(folders: Sequence[Path]) -> WeightMap:
    """The mean of the weights of checkpoints or runs of the same model."""
    return mean([checkpoint.weights() for checkpoint in _of_one_model(folders)])


def write_average(folders: Sequence[Path], output: Path) -> Checkpoint:
    """Write a checkpoint folder with the mean of the weights. Its other files come from the last checkpoint."""
    checkpoints = _of_one_model(folders)
    if output.exists():
        raise CheckpointError(f"{output} exists already. Choose another --output.")
    last = checkpoints[-1]

    def copy_the_rest(target: Path) -> None:
        for name in last.manifest["files"]:
            if name not in (WEIGHTS, TRAINING, STATE):
                (target / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(last.folder / name, target / name)

    state = {"average_of": [str(checkpoint.folder) for checkpoint in checkpoints]}
    return write_checkpoint(output, mean([c.weights() for c in checkpoints]), copy_the_rest, state=state)


def _of_one_model(folders: Sequence[Path]) -> list[Checkpoint]:
    if not folders:
        raise CheckpointError("The number of checkpoints must be 2 or more, got 0. Pass two checkpoints.")
    checkpoints = [open_checkpoint(folder) for folder in folders]
    first = checkpoints[0]
    for other in checkpoints[1:]:
        if other.fingerprint != first.fingerprint or _meanings(other) != _meanings(first):
            raise CheckpointError(
                f"Cannot average {other.folder} and {first.folder}: they are different models. Pass checkpoints of one "
                f"run, or of runs with the same config and vocabulary."
            )
    return checkpoints


def _meanings(checkpoint: Checkpoint) -> dict[str, str]:
    """The hashes of the files that determine the meaning of the weights."""
    return {
        name: entry["sha256"]
        for name, entry in checkpoint.manifest["files"].items()
        if name.startswith(("vocabulary", "labels", "tokenizer"))
    }
