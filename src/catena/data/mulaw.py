r"""Mu-law companding: samples from -1 to 1 as one of a few levels, finer near 0.

.. math::
    f(x) = \operatorname{sign}(x) \frac{\ln(1 + \mu |x|)}{\ln(1 + \mu)} \qquad
    \mathrm{id} = \Big\lfloor \frac{f(x) + 1}{2} \mu + \frac 1 2 \Big\rfloor \qquad
    f^{-1}(y) = \operatorname{sign}(y) \frac{(1 + \mu)^{|y|} - 1}{\mu}

with :math:`\mu` one less than the number of levels, 255 for 8 bits; van den Oord et al. 2016, section 2.2. At 0 the
derivative of f is :math:`\mu / \ln(1 + \mu)`, 46 for 8 bits. Ids i and :math:`\mu - i` decode to values of opposite
sign, so no id decodes to 0 if the number of levels is even: 0 is encoded as the upper one of the two levels around it.

This is not G.711, which has segments and 14 bits: decode a u-law WAV file first. Tested in tests/data/test_mulaw.py.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Shaped, UInt8

from catena.errors import ConfigError, DataError

N_LEVELS = 256
"""Levels of 8 bits."""


def encode_mulaw(samples: Shaped[np.ndarray, "*t"], n_levels: int = N_LEVELS) -> UInt8[np.ndarray, "*t"]:
    """The level of each sample; samples outside of -1 to 1 are clipped.

    Args:
        samples: floats. Integers are not accepted, since their full scale is unknown.
        n_levels: from 2 to 256.
    """
    mu = _check_levels(n_levels) - 1
    samples = np.asarray(samples)
    if not np.issubdtype(samples.dtype, np.floating):
        raise DataError(
            f"samples must be floats from -1 to 1, got {samples.dtype}. Divide integers by their full scale, 32768 for "
            "16 bits."
        )
    if not np.isfinite(samples).all():
        raise DataError("samples must be finite, got nan or an infinite value. Check how the sound was read.")
    wide = samples.astype(np.float64)  # in half precision neighboring levels near 1 would merge
    companded = compand(np.clip(wide, -1.0, 1.0), mu)
    return np.floor((companded + 1) / 2 * mu + 0.5).astype(np.uint8)


def decode_mulaw(ids: Shaped[np.ndarray, "*t"], n_levels: int = N_LEVELS) -> Float[np.ndarray, "*t"]:
    """The sample in the middle of each level, as float32."""
    mu = _check_levels(n_levels) - 1
    ids = np.asarray(ids)
    if not np.issubdtype(ids.dtype, np.integer):
        raise DataError(f"ids must be integers, got {ids.dtype}. Pass the output of encode_mulaw.")
    if ids.size and not 0 <= int(ids.min()) <= int(ids.max()) <= mu:
        raise DataError(
            f"ids must be from 0 to {mu}, got {ids.min()} to {ids.max()}. Use the n_levels of encode_mulaw, and remove "
            "special tokens."
        )
    return expand(level_positions(n_levels)[ids], mu).astype(np.float32)


def compand(samples: Float[np.ndarray, "*t"], mu: int = N_LEVELS - 1) -> Float[np.ndarray, "*t"]:
    """f(x), from -1 to 1."""
    return np.sign(samples) * np.log1p(mu * np.abs(samples)) / np.log1p(mu)


def expand(companded: Float[np.ndarray, "*t"], mu: int = N_LEVELS - 1) -> Float[np.ndarray, "*t"]:
    """The inverse of :func:`compand`."""
    return np.sign(companded) * np.expm1(np.abs(companded) * np.log1p(mu)) / mu


def level_positions(n_levels: int = N_LEVELS) -> Float[np.ndarray, " v"]:
    """The companded value of each level, evenly spaced from -1 to 1."""
    mu = _check_levels(n_levels) - 1
    return (2 * np.arange(n_levels) - mu) / mu  # in this form exactly odd


def silence_level(n_levels: int = N_LEVELS) -> int:
    """The level of the sample 0, also used for the time before a recording; 128 of 256."""
    return _check_levels(n_levels) // 2


def _check_levels(n_levels: int) -> int:
    if not 2 <= n_levels <= N_LEVELS:
        raise ConfigError(f"n_levels must be from 2 to {N_LEVELS}, got {n_levels}. Use 256 for 8 bits.")
    return n_levels
