"""Diagnose a neural language model: gradient flow through time and curvature of the loss."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Int
from torch import Tensor

from catena.data.reading import ReadCounter
from catena.errors import CatenaError, DataError
from catena.lm.neural import NeuralLanguageModel
from catena.randomness import Randomness
from catena.tasks.lm.batches import as_stream
from catena.tasks.lm.data import encode_texts
from catena.tasks.lm.task import LmTask
from catena.training.diagnose.curvature import Curvature, measure_curvature
from catena.training.diagnose.flow import GradientFlow, decay, measure_flow

VANISHED, EXPLODED = 0.01, 100.0
"""Ratios of the first to the last gradient norm below and above which a gradient vanishes or explodes."""


@dataclass(frozen=True)
class Diagnosis:
    """Gradient flow and curvature on ``sequences`` pieces of text of ``steps`` tokens."""

    sequences: int
    steps: int
    flow: GradientFlow
    curvature: Curvature


def diagnose(
    task: LmTask,
    path: Path,
    *,
    steps: int = 50,
    sequences: int = 16,
    iterations: int = 20,
    seed: int = 0,
) -> Diagnosis:
    """Measure gradient flow and curvature on random pieces of a file.

    Args:
        task: a neural language model that predicts the next token.
        path: the text file.
        steps: number of tokens of each piece, through which gradients are followed back.
        sequences: number of pieces.
        iterations: number of iterations of the search for the extreme eigenvalues of the Hessian.
        seed: seed of the choice of pieces.
    """
    model = task.network if task.networks else None
    if not isinstance(model, NeuralLanguageModel):
        raise CatenaError(
            "The model must be neural with objective.kind = 'next' to follow its gradients, got model.kind = "
            f"{task.config.model.kind!r} and objective.kind = {task.config.objective.kind!r}. "
            "Train one with --model lstm."
        )
    part = encode_texts(task.read(task.config, path, ReadCounter()), task.encoding)
    stream = as_stream(part.flat, model.begin, task.stepper_device)
    steps = min(steps, len(stream) - 1)
    if steps < 2:
        raise DataError(f"{path} must have at least 2 tokens, got {len(stream) - 1}. Use a longer text.")
    ids = _pieces(stream, steps + 1, sequences, seed)
    flow = measure_flow(model.encoder, model.vectors(ids[:, :-1]), lambda y: _cost(model, y, ids[:, -1]))
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    generator = Randomness(seed).torch("diagnose")
    curvature = measure_curvature(
        lambda: _mean_cost(model, ids), parameters, iterations=iterations, generator=generator
    )
    return Diagnosis(len(ids), steps, flow, curvature)


def verdict(name: str, gradients: list[float]) -> str:
    """One sentence on whether a gradient vanishes, explodes or holds through time."""
    rate = decay(gradients)
    if rate is None or gradients[0] == 0:
        return f"{name}: no gradient to follow"
    fraction = gradients[-1] / gradients[0]
    fate = "vanishes" if fraction < VANISHED else "explodes" if fraction > EXPLODED else "holds"
    return (
        f"{name}: the gradient {fate}: x{rate:.3f} per step back, {fraction:.2g} of it is left after "
        f"{len(gradients) - 1} steps"
    )


def _pieces(stream: Int[Tensor, " n"], width: int, sequences: int, seed: int) -> Int[Tensor, "b t"]:
    starts = len(stream) - width + 1
    chosen = torch.randperm(starts, generator=Randomness(seed).torch("diagnose.pieces"))[:sequences].sort().values
    positions = chosen[:, None] + torch.arange(width)
    return stream[positions.to(stream.device)].long()


def _cost(model: NeuralLanguageModel, raw: Tensor, targets: Tensor) -> Tensor:
    return -model.output.log_prob(model.bridge(raw), targets).sum()


def _mean_cost(model: NeuralLanguageModel, ids: Int[Tensor, "b t"]) -> Tensor:
    hidden = model.read(ids[:, :-1]).hidden
    return -model.output.log_prob(hidden.flatten(0, 1), ids[:, 1:].flatten()).mean()
