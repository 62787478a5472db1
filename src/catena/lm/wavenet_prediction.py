"""Adaptive linear predictors as inputs of a WaveNet, and as what its output corrects.

Each predictor reads the samples of one recording from its beginning, learns its coefficients while it reads
(:mod:`catena.kernels.linear_prediction`), and predicts the next sample. So it depends on more of the past than the
receptive field, and adapts to voices and instruments that are not in the training data, as in LPCNet (Valin &
Skoglund 2019). Its state is kept on the CPU in double precision.
Tested in tests/lm/test_wavenet.py and tests/kernels/linear_prediction.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, Float32, Float64, Int, UInt8
from torch import Tensor

from catena.data.mulaw import N_LEVELS, decode_mulaw
from catena.kernels.linear_prediction import reference
from catena.outputs.prediction import CENTER, MIN_SCALE, SPREAD

PARTS = len(reference.PARTS)
FEATURES = 6
"""Features of one predictor."""
FLIPPED = (-1.0, 1.0, 1.0, -1.0)
"""Factors of a prediction for a recording of opposite sign."""
LARGEST_ERROR = 4.0
"""Errors and differences are limited to this multiple of the slow scale."""


class LinearPredictors:
    """Linear predictors of some orders, which read mu-law levels.

    Args:
        orders: the number of coefficients of each.
        n_levels: the number of levels.
    """

    def __init__(self, orders: Sequence[int], n_levels: int = N_LEVELS) -> None:
        self.orders, self.n_levels = tuple(orders), n_levels
        self.n_features = FEATURES * len(self.orders)
        self._values = decode_mulaw(np.arange(n_levels), n_levels).astype(np.float64)

    def start(self, n: int) -> Float64[Tensor, "n s"]:
        """The states before the first samples of ``n`` recordings."""
        return torch.from_numpy(reference.start(self.orders, n))

    def current(self, states: Float64[Tensor, "n s"]) -> Float[Tensor, "n p 4"]:
        """The predictions of the next samples."""
        firsts = np.cumsum([0, *map(reference.count_values, self.orders)])[:-1].tolist()
        return torch.stack([states[:, first : first + PARTS] for first in firsts], dim=1).float()

    def read_(self, states: Float64[Tensor, "n s"], levels: Int[Tensor, "n t"]) -> Float[Tensor, "n t p 4"]:
        """Read levels, and return the prediction of the sample after each; the states are changed in place."""
        from catena.kernels.linear_prediction import cpu

        return torch.from_numpy(cpu.read_(self.orders, states.numpy(), self._values[levels.cpu().numpy()]))

    def predict(self, levels: UInt8[np.ndarray, " t"]) -> Float32[np.ndarray, "t p 4"]:
        """The prediction of each sample of a recording from the samples before it."""
        states = self.start(1)
        first = self.current(states)
        if not len(levels):
            return first[:0].numpy()
        rest = self.read_(states, torch.from_numpy(levels[None, :-1].astype(np.int64)))[0]
        return torch.cat((first, rest)).numpy()

    def features(self, predictions: Float[Tensor, "*n p 4"]) -> Float[Tensor, "*n k"]:
        """What the network reads.

        The first 3 p features are what :class:`catena.outputs.prediction.PredictionMixture` expects.
        """
        mean, slow, fast, error = predictions.unbind(dim=-1)
        logs = [((scale + MIN_SCALE).log() - CENTER) / SPREAD for scale in (slow, fast)]
        unit = slow + MIN_SCALE
        mu = self.n_levels - 1
        companded = mean.sign() * torch.log1p(mu * mean.abs()) / np.log1p(mu)
        relative = ((x / unit).clamp(-LARGEST_ERROR, LARGEST_ERROR) / 2 for x in (error, mean - mean[..., -1:]))
        anchors = torch.stack((mean, *logs), dim=-1).flatten(-2)
        return torch.cat((anchors, torch.stack((companded, *relative), dim=-1).flatten(-2)), dim=-1)

    @property
    def n_anchors(self) -> int:
        """The number of the first features that the output layer reads."""
        return 3 * len(self.orders)
