"""What may change when a run is resumed: how long it trains and where it computes.

Everything else in the config decides the result, so the config.toml of a run must have the values with which its
checkpoint was written. The data files are compared by :meth:`catena.training.run.RunFolder.check_data`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from catena.checkpoint import CONFIG, Checkpoint
from catena.config import Config, load, parse, read_toml, to_toml
from catena.config.text import toml_text
from catena.errors import CheckpointError
from catena.files import write_text_atomically

C = TypeVar("C", bound=Config)

_LIMITS = ("max_epochs", "max_steps", "max_time", "patience", "stop_at")
"""Keys of the section ``training`` that determine when training ends."""
_FREE = (
    "machine.",
    "threads",
    "baselines.",
    *(f"training.{name}" for name in (*_LIMITS, "save_every", "keep_best", "keep_last")),
)
"""Keys, or sections with a trailing dot, that do not affect the result."""
_MOST_KEYS = 5
"""Maximum number of keys that an error names."""


def load_config(
    schema: type[C], run: Path, checkpoint: Checkpoint | None, limits: Mapping[str, object], filled: Sequence[str] = ()
) -> C:
    """Read the config of a run that is resumed, with new limits, which are also written to its config.toml.

    Args:
        schema: the config class of the task.
        run: the run folder.
        checkpoint: the checkpoint that training resumes from, or None if there is none yet.
        limits: new values by their names in :data:`_LIMITS`.
        filled: keys, or sections with their dot, that the task itself sets in the config of a checkpoint.

    Raises:
        CheckpointError: if the file has other values than the checkpoint.
    """
    path = run / CONFIG
    data, text = read_toml(path)
    config = parse(schema, data, source=str(path), text=text)
    if checkpoint is not None:
        check_config(config, run, checkpoint, filled)
    if not limits:
        return config
    training = {**data.get("training", {}), **limits}
    config = parse(schema, {**data, "training": training}, source="the command line")
    write_text_atomically(path, to_toml(config))
    return config


def check_config(config: Config, run: Path, checkpoint: Checkpoint, filled: Sequence[str] = ()) -> None:
    """Raise CheckpointError if the config of a run differs from its checkpoint's in a key that decides the result."""
    theirs = checkpoint.folder / CONFIG
    written = dict(_flat(read_toml(run / CONFIG)[0]))
    kept = dict(_flat(read_toml(theirs)[0]))
    wrong = [f"{key} must be {toml_text(kept[key])}, got nothing" for key in kept if key not in written]
    new, old = dict(_flat(config.model_dump())), dict(_flat(load(type(config), theirs).model_dump()))
    paths = [f"data.{key}" for key in getattr(getattr(config, "data", None), "PATHS", ())]
    skipped = (*_FREE, *filled, *paths)  # what the files hold is compared by their hashes
    for key in dict.fromkeys((*old, *new)):
        is_free = any(key.startswith(name) if name.endswith(".") else key == name for name in skipped)
        if is_free or new.get(key) == old.get(key) or (key in kept and key not in written):
            continue
        was, now = (toml_text(values[key]) if key in values else "nothing" for values in (old, new))
        wrong.append(f"{key} must be {was}, got {now}")
    if wrong:
        more = f"; and {len(wrong) - _MOST_KEYS} more" if len(wrong) > _MOST_KEYS else ""
        raise CheckpointError(
            f"{run / CONFIG} differs from the config that {checkpoint.folder.name} was trained with: "
            f"{'; '.join(wrong[:_MOST_KEYS])}{more}. Copy {theirs} over it, or train a new run with --init-from {run}. "
            f"To train longer, give --max-epochs, --max-steps or --max-time to 'catena resume'."
        )


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Nested values by dotted key."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
