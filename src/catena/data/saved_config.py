"""Config files next to the objects they describe: {"format": 1, "settings": {…}}."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TypeVar

from catena.config import Config, parse
from catena.errors import CheckpointError, ConfigError

FORMAT = 1
S = TypeVar("S", bound=Config)


def write_settings(path: Path, settings: Config) -> None:
    """Write a config to a file."""
    text = json.dumps({"format": FORMAT, "settings": settings.model_dump()}, indent=1, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")


def read_settings(path: Path, schema: type[S], folder_of: str, file_of: str) -> S:
    """Read a config that :func:`write_settings` wrote, into a ``schema`` with the one section ``settings``.

    Args:
        path: the file.
        schema: the config class.
        folder_of: description of the expected folder for errors: "a folder of features".
        file_of: description of the expected file for errors: "a file of features".
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CheckpointError(f"{path.parent} has no {path.name}, so it is not {folder_of}. Check the path.") from None
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"Cannot read {path} ({error}). Copy the model again.") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT or not isinstance(data.get("settings"), dict):
        raise CheckpointError(
            f"{path} is not {file_of} of format {FORMAT}. It is damaged or from a newer version: copy the model again."
        )
    try:
        return parse(schema, {"settings": data["settings"]}, source=str(path))
    except ConfigError as error:
        raise CheckpointError(str(error)) from None
