"""Whether the parts and the conditions of a WaveNet fit together.

Tested in tests/lm/test_wavenet.py and tests/lm/test_wavenet_build.py.
"""

from __future__ import annotations

from torch import Tensor

from catena.encoders.dilated import Dilated
from catena.encoders.upsampling import Upsampling
from catena.errors import ConfigError, DataError
from catena.lm.wavenet_prediction import LinearPredictors
from catena.outputs.base import OutputLayer


def check_parts(
    encoder: Dilated,
    output: OutputLayer,
    n_speakers: int,
    upsampling: Upsampling | None,
    predictors: LinearPredictors | None,
) -> None:
    """Raise ConfigError unless the parts of a WaveNet fit together."""
    d_local = upsampling.d if upsampling else 0
    pairs = [
        ("encoder.d_in", encoder.d_in, encoder.d, "encoder.d"),
        ("output.d_in", output.d_in, encoder.d_out, "encoder.d_out"),
        ("encoder.d_local", encoder.d_local, d_local, "upsampling.d"),
    ]
    if predictors is not None:
        pairs[1:] = [
            ("output.d_in", output.d_in, encoder.d_out + predictors.n_anchors, "encoder.d_out + predictors.n_anchors"),
            ("encoder.d_local", encoder.d_local, d_local + predictors.n_features, "upsampling.d + n_features"),
        ]
    for name, value, wanted, source in pairs:
        if value != wanted:
            raise ConfigError(f"{name} must be {wanted}, as {source}, got {value}. Build the parts with equal sizes.")
    if bool(n_speakers) != bool(encoder.d_global):
        raise ConfigError(
            f"n_speakers must be 0 exactly if encoder.d_global = {encoder.d_global} is 0, got {n_speakers}. Set both, "
            "or none."
        )
    if not encoder.final_relu:
        raise ConfigError("encoder.final_relu must be True, got False. Build the encoder with final_relu=True.")


def check_speakers(speakers: Tensor, n_speakers: int) -> None:
    """Raise DataError for an index that is too large; on a GPU that would wait for the device."""
    if speakers.device.type == "cpu" and len(speakers) and int(speakers.max()) >= n_speakers:
        raise DataError(
            f"speakers must be below n_speakers = {n_speakers}, got {int(speakers.max())}. Use -1 for a new speaker."
        )
