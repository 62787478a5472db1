"""Settings beside what was made by them, in a file of their own: {"format": 1, "settings": {…}}."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TypeVar

from catena.config import Config, parse
from catena.errors import CheckpointError, ConfigError

FORMAT = 1
S = TypeVar("S", bound=Config)


def write_settings(path: Path, settings: Config) -> None:
    """Write settings into a file."""
    text = json.dumps({"format": FORMAT, "settings": settings.model_dump()}, indent=1, ensure_ascii=False)
    path.write_text(text + "\n", encoding="utf-8")


def read_settings(path: Path, schema: type[S], folder_of: str, file_of: str) -> S:
    """Read what :func:`write_settings` wrote, into a ``schema`` with the one section ``settings``.

    Args:
        folder_of: what the folder should be, in words: "a folder of features".
        file_of: what the file should be: "a file of features".
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CheckpointError(f"{path.parent} has no {path.name}: it is not {folder_of}") from None
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} cannot be read ({error}): copy the model again") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT or not isinstance(data.get("settings"), dict):
        raise CheckpointError(f"{path} is not {file_of} of format {FORMAT}: it is damaged or made by a newer version")
    try:
        return parse(schema, {"settings": data["settings"]}, source=str(path))
    except ConfigError as error:
        raise CheckpointError(str(error)) from None
