"""Weights of VGG from a file of the user: safetensors or npz, in float or with 8 bits.

The convolutions are the arrays with four axes, in the order of their names (``features.2`` before ``features.10``,
``conv1_2`` before ``conv2_1``). Their shapes decide which variant of VGG it is; layers at the end may be missing, and
dense layers are not read. A bias has the name of its weight with ``weight`` replaced by ``bias``. An int8 weight is
multiplied by its ``scale``, one value for each output channel. Weights stored as height, width, input, output, as in
TensorFlow, are transposed. Tested in tests/encoders/test_vgg_weights.py.

No part of a file says whether it expects torchvision's or Caffe's input, except the entry ``preprocessing`` of the
metadata of a safetensors file. Both work with either input but give worse features with the wrong one, so it is never
guessed.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from catena.encoders.image_features import PREPROCESSING, GridPooling, PreprocessingName, VGGFeatures
from catena.encoders.image_plain import VGG_LAYERS
from catena.errors import ConfigError, FormatError

_BIAS_NAMES = (("weight", "bias"), ("kernel", "bias"), ("_W", "_b"))


def read_vgg(
    path: Path | str, preprocessing: PreprocessingName | None = None, pooling: GridPooling = "average"
) -> VGGFeatures:
    """The feature maps of VGG with the weights of a file.

    Args:
        path: a .safetensors or .npz file: torchvision's state dict, a conversion from Caffe, or 8-bit weights.
        preprocessing: the input that the weights were trained with; None takes it from the metadata of the file.
        pooling: pooling between the stages.

    Raises:
        FormatError: if the file is damaged, or its shapes are not those of VGG.
        ConfigError: if the preprocessing is not known.
    """
    path = Path(path)
    arrays, metadata = _read_arrays(path)
    preprocessing = _choose_preprocessing(path, preprocessing or metadata.get("preprocessing"))
    if normalized := [name for name in arrays if "running_mean" in name]:
        raise FormatError(
            f"{path} must be VGG without batch normalization, got {normalized[0]}. Use the weights of plain VGG."
        )
    names = [name for name in sorted(arrays, key=_natural_key) if arrays[name].ndim == 4]
    layers = [_read_layer(path, name, arrays) for name in names]
    return VGGFeatures(_split_stages(path, layers), preprocessing, pooling)


def _choose_preprocessing(path: Path, name: Any) -> PreprocessingName:
    if name is None:
        raise ConfigError(
            f"{path} does not say which input its network was trained with. Pass --preprocessing torchvision for "
            "weights of torchvision, or --preprocessing caffe for weights converted from Caffe."
        )
    if name not in PREPROCESSING:
        raise ConfigError(
            f"preprocessing must be one of {', '.join(PREPROCESSING)}, got {name!r}. Choose one of these."
        )
    return name


def _read_arrays(path: Path) -> tuple[dict[str, Tensor], Mapping[str, str]]:
    if not path.is_file():
        raise FormatError(f"File not found: {path}. Check the path of the weights.")
    try:
        return _read_npz(path) if zipfile.is_zipfile(path) else _read_safetensors(path)
    except FormatError:
        raise
    except Exception as error:  # the readers raise exceptions of many types for damaged files
        reason = str(error).strip().rstrip(".") or type(error).__name__
        raise FormatError(
            f"{path} must be a safetensors or npz file, got {reason}. Convert or copy it again."
        ) from None


def _read_safetensors(path: Path) -> tuple[dict[str, Tensor], Mapping[str, str]]:
    from safetensors import safe_open

    with safe_open(path, "pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118


def _read_npz(path: Path) -> tuple[dict[str, Tensor], Mapping[str, str]]:
    with zipfile.ZipFile(path) as archive:
        if not all(name.endswith(".npy") for name in archive.namelist()):
            raise FormatError(
                f"{path} must be a safetensors or npz file, got a pickle of torch. Save it with safetensors."
            )
    with np.load(path, allow_pickle=False) as file:
        return {name: torch.from_numpy(file[name]) for name in file.files}, {}


def _natural_key(name: str) -> list[tuple[int, str]]:
    """Names in the order of the numbers in them."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def _read_layer(path: Path, name: str, arrays: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
    weight = arrays[name].float()
    if weight.shape[:2] == (3, 3) and weight.shape[2:] != (3, 3):
        weight = weight.permute(3, 2, 0, 1)  # height width c_in c_out -> c_out c_in height width
    if arrays[name].dtype == torch.int8:
        scale = _companion(path, name, arrays, (("weight", "scale"),), len(weight))
        weight = weight * scale[:, None, None, None]
    bias = _companion(path, name, arrays, _BIAS_NAMES, len(weight))
    if not (weight.isfinite().all() and bias.isfinite().all()):
        raise FormatError(f"{path} has weights that are not finite in {name}. Copy the file again.")
    return weight.contiguous(), bias


def _companion(
    path: Path, name: str, arrays: Mapping[str, Tensor], pairs: tuple[tuple[str, str], ...], n: int
) -> Tensor:
    """The bias or scale of a weight: ``n`` values under the name that one of the replacements gives."""
    names = [other.join(name.rsplit(word, 1)) for word, other in pairs if word in name]
    found = next((arrays[one] for one in names if one in arrays), None)
    if found is None or found.shape != (n,):
        got = "none" if found is None else f"shape {tuple(found.shape)}"
        raise FormatError(
            f"{path} must have {n} values {' or '.join(names) or 'of the bias'} for {name}, got {got}. Export the "
            "weights of VGG again."
        )
    return found.float()


def _split_stages(path: Path, layers: list[tuple[Tensor, Tensor]]) -> list[list[tuple[Tensor, Tensor]]]:
    """The layers in the stages of the first variant of VGG whose shapes fit."""
    shapes = [tuple(weight.shape) for weight, _ in layers]
    for variant in VGG_LAYERS.values():
        channels = [c for stage in variant for c in stage]
        expected = [(c, before, 3, 3) for before, c in zip([3, *channels], channels, strict=False)]
        if shapes and shapes == expected[: len(shapes)]:
            ends = np.cumsum([0, *map(len, variant)])
            stages = [layers[start:end] for start, end in pairwise(ends)]
            return [stage for stage in stages if stage]
    shown = ", ".join("x".join(map(str, shape)) for shape in shapes[:4])
    raise FormatError(
        f"{path} must have the convolutions of VGG (64x3x3x3, 64x64x3x3 or 128x64x3x3, …), got "
        f"{shown or 'no array with four axes'}. Use the weights of VGG 11, 13, 16 or 19 without batch normalization."
    )
