"""Q-networks: from an observation to one value for each action.

A network reads stored observations of any type (see :class:`catena.agents.spaces.ObservationFormat`). Networks without
memory map each observation to its values; a recurrent network also reads and returns a state.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from catena.agents.config import ConvolutionQConfig, DenseQConfig, QNetworkConfig, RecurrentQConfig
from catena.agents.spaces import ObservationFormat
from catena.encoders.build import build_encoder
from catena.encoders.causal import CausalEncoder, causal
from catena.encoders.config import RecurrentConfig
from catena.errors import ConfigError


class QNetwork(nn.Module, ABC):
    """Abstract map of observations to ``q[..., a]``, the value of action ``a``."""

    has_memory: bool = False
    input: InputLayer

    @abstractmethod
    def forward(self, observations: Tensor) -> Float[Tensor, "*n a"]:
        """Values of independent observations ``n …`` or, with memory, of sequences ``b t …`` from their beginning."""

    def begin(self, n: int) -> Any:
        """The state of ``n`` episodes before their first observation."""
        return None

    def step(self, observations: Tensor, last_actions: Tensor, state: Any) -> tuple[Float[Tensor, "n a"], Any]:
        """Values of one observation of each of ``n`` episodes, and the new state.

        Args:
            observations: one observation of each episode.
            last_actions: the action before it; -1 at the beginning of an episode.
            state: the state before it.
        """
        return self(observations), state


class InputLayer(nn.Module):
    """Converts stored observations to floats: one-hot for indices, bytes divided by 255, others standardized if wanted.

    Args:
        observations: the form of the observations.
        normalize: whether to subtract the mean and divide by the deviation, which :meth:`fit` sets.
    """

    def __init__(self, observations: ObservationFormat, normalize: bool = False) -> None:
        super().__init__()
        self.n_states = observations.n_states
        self.scale = 255.0 if observations.dtype == "uint8" else 1.0
        self.normalize = normalize and not self.n_states
        if self.normalize:
            self.register_buffer("mean", torch.zeros(observations.shape))
            self.register_buffer("deviation", torch.ones(observations.shape))

    def fit(self, observations: np.ndarray) -> None:
        """Set mean and deviation from observations. An entry that is always the same keeps the deviation 1."""
        seen = observations.astype(np.float64) / self.scale
        deviation = seen.std(0)
        self.get_buffer("mean").copy_(torch.from_numpy(seen.mean(0)))
        self.get_buffer("deviation").copy_(torch.from_numpy(np.where(deviation > 0, deviation, 1.0)))

    def forward(self, x: Tensor, dtype: torch.dtype) -> Float[Tensor, "..."]:
        x = F.one_hot(x, self.n_states).to(dtype) if self.n_states else x.to(dtype)
        x = x / self.scale if self.scale != 1.0 else x
        return (x - self.get_buffer("mean")) / self.get_buffer("deviation") if self.normalize else x


class DenseQNetwork(QNetwork):
    """Dense layers with rectifiers; linear without hidden layers, and then a table if observations are states."""

    def __init__(
        self,
        config: DenseQConfig,
        observations: ObservationFormat,
        n_actions: int,
        frames: int = 1,
        normalize: bool = False,
    ) -> None:
        super().__init__()
        self.input = InputLayer(observations, normalize)
        self.hidden, d = dense_layers(observations.n_features * frames, config.sizes)
        is_table = observations.n_states > 0 and not config.sizes
        self.output = nn.Linear(d, n_actions, bias=not is_table)

    def forward(self, observations: Tensor) -> Float[Tensor, "n a"]:
        return self.output(self.hidden(self.input(observations, self.output.weight.dtype).flatten(1)))


class ConvolutionQNetwork(QNetwork):
    """Convolutions over an image of shape (height, width) or (height, width, channels), then dense layers."""

    def __init__(
        self,
        config: ConvolutionQConfig,
        observations: ObservationFormat,
        n_actions: int,
        frames: int = 1,
        normalize: bool = False,
    ) -> None:
        super().__init__()
        self.input = InputLayer(observations, normalize)
        self.image = ImageLayers(config, observations, frames)
        self.hidden, d = dense_layers(self.image.d_out, config.sizes)
        self.output = nn.Linear(d, n_actions)
        self.has_frame_axis = frames > 1

    def forward(self, observations: Tensor) -> Float[Tensor, "n a"]:
        x = self.input(observations, self.output.weight.dtype)
        return self.output(self.hidden(self.image(x if self.has_frame_axis else x[:, None])))


class RecurrentQNetwork(QNetwork):
    """Convolutions for images, dense layers, a recurrent layer, and one value for each action at each step.

    Args:
        config: the config of the network.
        observations: the form of the observations.
        n_actions: the number of actions.
        normalize: whether observations are standardized.
    """

    has_memory = True

    def __init__(
        self, config: RecurrentQConfig, observations: ObservationFormat, n_actions: int, normalize: bool = False
    ) -> None:
        super().__init__()
        self.input = InputLayer(observations, normalize)
        self.n_last = n_actions if config.last_action else 0
        self.image = ImageLayers(config, observations, 1) if config.channels else None
        d_in = (self.image.d_out if self.image else observations.n_features) + self.n_last
        self.hidden, d = dense_layers(d_in, config.sizes)
        recurrent = RecurrentConfig(cell=config.cell, d=config.d, n_layers=config.n_layers, bidirectional=False)
        self.recurrent: CausalEncoder = causal(build_encoder(recurrent, d_in=d))
        self.output = nn.Linear(config.d, n_actions)

    def forward(
        self, observations: Tensor, last_actions: Int[Tensor, "b t"] | None = None, state: Any = None
    ) -> Float[Tensor, "b t a"]:
        """Values of sequences.

        Args:
            observations: sequences ``b t …``.
            last_actions: the action before each observation; -1, or None for all, where there is none.
            state: the state before the first observation; None at the beginning of episodes.
        """
        x = self._features(observations, last_actions)
        return self.output(self.recurrent.whole(x) if state is None else self.recurrent.continue_(x, state)[0])

    def begin(self, n: int) -> Any:
        return self.recurrent.begin(n, self.output.weight.device, self.output.weight.dtype)

    def step(self, observations: Tensor, last_actions: Tensor, state: Any) -> tuple[Float[Tensor, "n a"], Any]:
        h, state = self.recurrent.continue_(self._features(observations[:, None], last_actions[:, None]), state)
        return self.output(h[:, 0]), state

    def pack(self, state: Any) -> Float[Tensor, "n d"]:
        """A state as one row for each episode."""
        return torch.cat([part for layer in state for part in layer], dim=-1)

    def unpack(self, rows: Float[Tensor, "n d"]) -> Any:
        """The inverse of :meth:`pack`."""
        sizes = [[part.shape[-1] for part in layer] for layer in self.begin(1)]
        parts = iter(rows.split([size for layer in sizes for size in layer], dim=-1))
        return tuple(tuple(next(parts) for _ in layer) for layer in sizes)

    def _features(self, observations: Tensor, last_actions: Tensor | None) -> Float[Tensor, "b t d"]:
        b, t = observations.shape[:2]
        x = self.input(observations, self.output.weight.dtype).flatten(0, 1)  # b t … -> b·t …
        x = self.image(x[:, None]) if self.image else x.flatten(1)
        if self.n_last:
            last = x.new_zeros(b * t, self.n_last)
            if last_actions is not None:
                last = F.one_hot(last_actions.flatten() + 1, self.n_last + 1)[:, 1:].to(x.dtype)  # -1: all 0
            x = torch.cat((x, last), dim=-1)
        return self.hidden(x).unflatten(0, (b, t))


class ImageLayers(nn.Module):
    """Convolutions with rectifiers over frames of an image, flattened."""

    def __init__(
        self, config: ConvolutionQConfig | RecurrentQConfig, observations: ObservationFormat, frames: int
    ) -> None:
        super().__init__()
        shape = observations.shape
        if observations.n_states or len(shape) not in (2, 3):
            raise ConfigError(
                f"network.kind must be 'dense' for observations of shape {shape}, which are not images, got "
                f"{config.kind!r}. Use --network dense, or --network recurrent without channels."
            )
        depth = shape[2] if len(shape) == 3 else 1
        layers: list[nn.Module] = []
        n_channels, size = depth * frames, shape[:2]
        for channels, window, stride in zip(config.channels, config.windows, config.strides, strict=True):
            layers += [nn.Conv2d(n_channels, channels, window, stride), nn.ReLU()]
            n_channels = channels
            size = tuple((side - window) // stride + 1 for side in size)
        if min(size) < 1:
            raise ConfigError(
                f"network.windows and strides must fit into an image of {shape[0]} x {shape[1]}, got windows "
                f"{config.windows} and strides {config.strides}. Use smaller ones."
            )
        self.layers = nn.Sequential(*layers)
        self.is_deep = len(shape) == 3
        self.d_out = n_channels * size[0] * size[1]

    def forward(self, x: Float[Tensor, "n f ..."]) -> Float[Tensor, "n d"]:
        if self.is_deep:
            x = x.movedim(-1, 2).flatten(1, 2)  # n f h w c -> n f·c h w
        return self.layers(x).flatten(1)


def dense_layers(d_in: int, sizes: tuple[int, ...]) -> tuple[nn.Sequential, int]:
    """Dense layers with rectifiers, and their output size."""
    layers: list[nn.Module] = []
    for size in sizes:
        layers += [nn.Linear(d_in, size), nn.ReLU()]
        d_in = size
    return nn.Sequential(*layers), d_in


def build_q_network(
    config: QNetworkConfig, observations: ObservationFormat, n_actions: int, frames: int = 1, normalize: bool = False
) -> QNetwork:
    """The network that a config describes, with random weights from torch's global generator."""
    if isinstance(config, DenseQConfig):
        return DenseQNetwork(config, observations, n_actions, frames, normalize)
    if isinstance(config, ConvolutionQConfig):
        return ConvolutionQNetwork(config, observations, n_actions, frames, normalize)
    return RecurrentQNetwork(config, observations, n_actions, normalize)
