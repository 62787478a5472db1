"""The classifier of pictures and sounds as an estimator of scikit-learn.

Tested in tests/tasks/classify/media/test_data.py.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from catena.config import KIND, parse
from catena.data.examples import SourceLocation
from catena.data.media import LabeledFile
from catena.data.media_files import common_kind
from catena.data.reading import ReadCounter
from catena.errors import ConfigError, DataError
from catena.tasks.classify.estimator import TextClassifier
from catena.tasks.estimator import is_path
from catena.tasks.spec import TASKS

_KINDS = ("picture", "sound")


class MediaClassifier(TextClassifier, task="classify"):
    """Classifier of pictures or of sounds.

    model = MediaClassifier(encoder="resnet").fit(paths, labels)
    model.predict(["cat.jpg"])

    Inputs are paths of files, or the path of a folder with one subfolder for each label. Whether they are pictures or
    sounds is seen from their names, unless ``model`` is "picture" or "sound". Labels are as in
    :class:`catena.TextClassifier`. A file that cannot be decoded raises an error; in a folder it is left out.
    """

    model: Any

    def _prepare(self, x: Any) -> Any:
        if isinstance(x, str) and Path(x).is_dir():
            x = Path(x)
        if self.model is None:
            x = x if is_path(x) else self._as_inputs(x)
            self._kind = _choose_kind(x)
        elif self.model not in _KINDS:
            raise ConfigError(f"model must be 'picture' or 'sound', got {self.model!r}. Use TextClassifier for texts.")
        return x

    def config_values(self) -> dict[str, Any]:
        kind = self.model or getattr(self, "_kind", None)
        if kind is None:
            return super().config_values()
        before, self.model = self.model, kind
        try:
            return super().config_values()
        finally:
            self.model = before

    def _as_inputs(self, x: Any) -> list[Any]:
        if isinstance(x, str | os.PathLike):
            raise DataError(f"X must be a list of paths, got one: {str(x)!r:.60}. Put it in a list.")
        paths = list(x.tolist() if hasattr(x, "tolist") else x)
        for i, path in enumerate(paths):
            if not isinstance(path, str | os.PathLike):
                raise DataError(f"path {i} must be a string or a Path, got {type(path).__name__}. Pass paths of files.")
        return [Path(path) for path in paths]

    def _labeled(self, inputs: Sequence[Path], labels: Iterable[Sequence[str]]) -> list[Any]:
        from catena.tasks.classify.config import ClassifyConfig
        from catena.tasks.classify.media.task import MediaTask

        if hasattr(self, "task_") and isinstance(self.task_, MediaTask):
            config: Any = self.task_.config
        else:
            config = parse(ClassifyConfig, self.config_values(), source=type(self).__name__)
        family: Any = TASKS["classify"].family(config)
        place = enumerate(zip(inputs, labels, strict=True), start=1)
        files = [LabeledFile(path, tuple(some), SourceLocation("fit", i)) for i, (path, some) in place]
        counter = ReadCounter()
        examples = list(family._decode_block(config, files, counter))
        counter.check_none_dropped()
        return examples


def _choose_kind(x: Any) -> str:
    """Whether inputs are pictures or sounds."""
    if is_path(x):
        kind = TASKS["classify"].choose_kind({}, [Path(x)]).get("model", {}).get(KIND)
    else:
        kind = common_kind(x)
    if kind is None:
        raise DataError(f"X must be files of pictures or sounds, got {x!r:.60}. Set model='picture' or 'sound'.")
    return kind
