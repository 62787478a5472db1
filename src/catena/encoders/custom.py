"""Encoders of the user: a module named in the config, which any task then trains as one of its own."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from catena.config.text import parse_options
from catena.encoders.base import Encoder
from catena.encoders.config import CustomEncoderConfig
from catena.errors import ConfigError, ShapeError
from catena.extras import import_local
from catena.registry import did_you_mean


class CustomEncoder(Encoder):
    """A module of the user as an encoder: padding is 0 in its input and output, and its output is checked.

    Args:
        d_in: size of the input vectors.
        module: maps ``(x, lengths)``, with x of shape ``b t d_in``, to ``b t d_out``, and has an attribute ``d_out``.
        name: its name in errors.
    """

    def __init__(self, d_in: int, module: nn.Module, name: str) -> None:
        super().__init__()
        d_out = getattr(module, "d_out", None)
        if not isinstance(d_out, int) or d_out < 1:
            raise ConfigError(
                f"d_out of {name} must be a positive integer, got {d_out!r}. Set self.d_out in its __init__ to the "
                f"size of the vectors that it returns."
            )
        self.d_in, self.d_out, self.module, self.name = d_in, d_out, module, name

    def encode(
        self, x: Float[Tensor, "b t d_in"], lengths: Int[Tensor, "b"], mask: Bool[Tensor, "b t"]
    ) -> Float[Tensor, "b t d_out"]:
        try:
            encoded = self.module(x, lengths)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:
            words = " ".join(str(error).split())[:200]
            raise ConfigError(
                f"The encoder {self.name!r} failed: {type(error).__name__}: {words}. Correct the module; --debug shows "
                f"the traceback."
            ) from error
        wanted = (*x.shape[:2], self.d_out)
        if not isinstance(encoded, Tensor) or tuple(encoded.shape) != wanted:
            found = f"shape {tuple(encoded.shape)}" if isinstance(encoded, Tensor) else f"a {type(encoded).__name__}"
            raise ShapeError(
                f"The output of {self.name} must be a tensor of shape {wanted}, got {found}. Return a vector of size "
                f"d_out for each position."
            )
        return encoded


def build_custom(settings: CustomEncoderConfig, d_in: int) -> CustomEncoder:
    """The encoder that a config names.

    Args:
        settings: the class and its options.
        d_in: size of the input vectors, its first argument.
    """
    if settings.module is None:
        raise ConfigError(
            "encoder.module must be set if encoder.kind = 'custom', got none. Set it to module:Class, the class of "
            "your encoder."
        )
    return CustomEncoder(d_in, _build_module(settings.module, settings.module_options, d_in), settings.module)


def _build_module(path: str, options: Sequence[str], d_in: int) -> nn.Module:
    source, _, name = path.partition(":")
    if not name.isidentifier() or source.endswith(".py") or not all(map(str.isidentifier, source.split("."))):
        example = f"{source.removesuffix('.py') or 'mine'}:{name or 'Encoder'}"
        raise ConfigError(f"encoder.module must be a module and a class, got {path!r}. Write {example}, for example.")
    owner = import_local(source, f"The encoder {path!r}")
    known = [key for key, value in vars(owner).items() if isinstance(value, type) and issubclass(value, nn.Module)]
    if not callable(getattr(owner, name, None)):
        raise ConfigError(f"The module {source!r} has no class {name!r}: {did_you_mean(name, known)}")
    try:
        built = getattr(owner, name)(d_in, **parse_options(options, "encoder.module_options", "d=64"))
    except ConfigError:
        raise
    except Exception as error:
        words = " ".join(str(error).split())[:200]
        raise ConfigError(
            f"The encoder {path!r} could not be built: {type(error).__name__}: {words}. Check encoder.module_options, "
            f"and that its first argument is the size of its input."
        ) from error
    if not isinstance(built, nn.Module):
        raise ConfigError(f"{path!r} must be a torch.nn.Module, got {type(built).__name__}. Derive it from nn.Module.")
    return built
