"""Steps of a WaveNet by the fastest implementation for the device and dtype of its weights."""

from __future__ import annotations

import importlib.util

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from catena.kernels.wavenet import reference
from catena.kernels.wavenet.reference import Biases, Step, StepWeights


class StepKernel:
    """The functions of :mod:`catena.kernels.wavenet.reference` for given weights, which are copied as needed."""

    def __init__(self, weights: StepWeights) -> None:
        self.weights = weights

    def read_(self, step: Step, levels: Int[Tensor, "n k"], biases: Biases | None = None) -> None:
        """Read given levels; the state is changed in place."""
        reference.read_(self.weights, step, levels, biases)

    def generate_(
        self, step: Step, uniforms: Float[Tensor, "n k"], temperature: float = 1.0, biases: Biases | None = None
    ) -> Int[Tensor, "n k"]:
        """Sample and read levels; the state is changed in place."""
        return reference.generate_(self.weights, step, uniforms, temperature, biases)


class CPUKernel(StepKernel):
    """Compiled steps on a CPU, in single precision."""

    def __init__(self, weights: StepWeights) -> None:
        super().__init__(weights)
        from catena.kernels.wavenet import cpu

        arrays = {name: x.detach().numpy() for name, x in weights._asdict().items() if name != "gaps"}
        self.panels = cpu.pack(arrays, weights.gaps)
        self._read = cpu.read_
        self._generate = cpu.generate_

    def read_(self, step: Step, levels: Int[Tensor, "n k"], biases: Biases | None = None) -> None:
        self._read(self.panels, *_arrays(step), np.ascontiguousarray(levels.numpy()), self._biases(biases))

    def generate_(
        self, step: Step, uniforms: Float[Tensor, "n k"], temperature: float = 1.0, biases: Biases | None = None
    ) -> Int[Tensor, "n k"]:
        numbers = np.ascontiguousarray(uniforms.double().numpy())
        levels = self._generate(self.panels, *_arrays(step), numbers, temperature, self._biases(biases))
        return torch.from_numpy(levels)

    def _biases(self, biases: Biases | None) -> np.ndarray:
        if biases is None:
            return np.empty((0, 1, *self.weights.taps_bias.shape), np.float32)
        return np.ascontiguousarray(biases.detach().numpy())


class GPUKernel(StepKernel):
    """Steps on a GPU; generation by one persistent kernel for each row."""

    def __init__(self, weights: StepWeights) -> None:
        super().__init__(weights)
        from catena.kernels.wavenet import gpu

        self.packed = gpu.pack(weights)
        self._generate = gpu.generate_

    def generate_(
        self, step: Step, uniforms: Float[Tensor, "n k"], temperature: float = 1.0, biases: Biases | None = None
    ) -> Int[Tensor, "n k"]:
        return self._generate(self.packed, step, uniforms, temperature, biases)


def build_kernel(weights: StepWeights) -> StepKernel:
    """The fastest implementation for these weights."""
    example = weights.embedding
    if example.device.type == "cpu" and example.dtype == torch.float32:
        return CPUKernel(weights)
    if example.device.type == "cuda" and importlib.util.find_spec("triton") is not None:
        from catena.kernels.wavenet import gpu

        if gpu.supports(weights):
            return GPUKernel(weights)
    return StepKernel(weights)


def _arrays(step: Step) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The arrays of a state, in the same memory."""
    queues, time, hidden = (x.detach().numpy() for x in step)
    return queues, time, hidden
