"""The model of captions as an estimator. Tested in tests/tasks/caption/test_task.py."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from catena.config import parse
from catena.data.examples import SourceLocation
from catena.data.readers.captions import CaptionedPicture
from catena.data.reading import ReadCounter
from catena.errors import DataError
from catena.tasks.caption.config import CaptionConfig
from catena.tasks.caption.data import CaptionExample, clean_caption, load_examples
from catena.tasks.estimator import Estimator
from catena.tasks.targets import check_same_length


class Captioner(Estimator, task="caption"):
    """Model of captions: paths of pictures in, captions out.

    captioner = Captioner(depth=8, max_epochs=20).fit(["dog.jpg", "cat.jpg"], ["a dog runs", ["a cat", "a small cat"]])
    [p.caption for p in captioner.predict(["new.jpg"], beam_size=5)]

    ``y`` has a caption for each picture, or a list of captions; ``x`` may also be the path of a file of captions. A
    picture that cannot be read raises an error; in a file it is left out.
    """

    def _examples(self, x: Any, y: Any) -> list[CaptionExample]:
        from catena.tasks.caption.task import CaptionTask

        config: Any = (
            self.task_.config
            if hasattr(self, "task_")
            else CaptionTask.complete(
                parse(CaptionConfig, self.config_values(), source=type(self).__name__), lambda words: None
            )
        )
        captions = [] if y is None else [_references(one, i) for i, one in enumerate(y)]
        paths = list(_paths(x))
        check_same_length(paths, captions, "picture", "list of captions")
        pictures = [
            CaptionedPicture(path, tuple(clean_caption(text, config.data) for text in own), SourceLocation("fit", i))
            for i, (path, own) in enumerate(zip(paths, captions, strict=True), start=1)
        ]
        counter = ReadCounter()
        examples = load_examples(config, pictures, counter)
        counter.check_none_dropped()
        return examples


def _paths(x: Iterable[Any]) -> Iterable[Path]:
    for i, path in enumerate(x):
        if not isinstance(path, str | os.PathLike):
            raise DataError(f"picture {i} must be a path, got {type(path).__name__}. Pass paths of files.")
        yield Path(path)


def _references(value: Any, i: int) -> tuple[str, ...]:
    several = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, Sequence) else ()
    if not several or not all(isinstance(text, str) and text.strip() for text in several):
        raise DataError(f"caption {i} must be a text or a list of texts, got {value!r:.60}. Replace it.")
    return several
