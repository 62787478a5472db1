"""Regression on pictures and sounds: the networks of their classifiers with a Gaussian output.

A table has a column of file names, relative to its folder, and the values. Files are decoded, augmented and normalized
as by the classifiers, whose network has one output for the mean and, if it is learned, one for the log variance. A file
that cannot be decoded is dropped and listed. Tested in tests/tasks/regress/test_media.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from catena.data.batches import BatchPlan
from catena.data.examples import SourceLocation
from catena.data.media import list_files
from catena.data.media_files import media_kind
from catena.data.reading import ReadCounter
from catena.data.records import open_records
from catena.data.roles import FILE_COLUMNS, find_column
from catena.data.vocabulary import Labels
from catena.errors import ConfigError, DataError
from catena.randomness import Randomness
from catena.tasks.base import DataParts, Origin, blocks
from catena.tasks.baselines.fitting import BaselineSuite
from catena.tasks.classify.media.data import MediaRows, split_key
from catena.tasks.classify.media.pictures import PictureTask
from catena.tasks.classify.media.sounds import SoundTask
from catena.tasks.classify.media.task import MediaBatch, MediaEncoding, MediaNetwork, MediaTask
from catena.tasks.neural import Dataset, NetworkTraining, PlannedEpoch
from catena.tasks.regress.config import RegressConfig
from catena.tasks.regress.data import RegressExample, read_values
from catena.tasks.regress.encoding import RegressEncoding
from catena.tasks.regress.neural import GaussianNetwork, NeuralRegressTask, RegressBatch, RegressRows
from catena.tasks.regress.task import describe_parts
from catena.tasks.sources import Sources
from catena.training.task import EpochPlan

_BLOCK = 64
"""Number of files of a stream that are decoded together."""


@dataclass(frozen=True, eq=False)
class FileExample(RegressExample):
    """A decoded file: ``text`` is its path, ``content`` its pixels (height, width, 3) or samples."""

    content: np.ndarray

    @property
    def key(self) -> str:
        return split_key(Path(self.text))


class FileLogits(NamedTuple):
    """The outputs for each file."""

    logits: Float[Tensor, "b k"]


@dataclass(frozen=True, eq=False)
class FileBatch(MediaBatch):
    """A batch of files with the sizes that a batch of texts has."""

    @property
    def tokens(self) -> int:
        return self.size

    @property
    def longest(self) -> int:
        return 1 if self.lengths is None else int(self.lengths.max())


class FileNetwork(nn.Module):
    """The network of a classifier of files, whose scores are the outputs."""

    def __init__(self, media: MediaNetwork) -> None:
        super().__init__()
        self.media = media

    def forward(self, batch: MediaBatch) -> FileLogits:
        return FileLogits(self.media(batch).scores)


@dataclass(frozen=True, eq=False)
class FileRows:
    """Decoded files, used like encoded texts."""

    media: MediaTask
    rows: MediaRows

    @property
    def lengths(self) -> np.ndarray:
        return self.rows.lengths

    def batch(self, index: np.ndarray, targets: None, device: torch.device) -> FileBatch:
        """The files at ``index``, without augmentation."""
        return _to_batch(self.media.load_batch(self.rows, index))

    def augmented(self, index: np.ndarray, epoch: int, randomness: Randomness) -> FileBatch:
        """The files at ``index``, changed at random."""
        return _to_batch(self.media.augment_batch(self.rows, index, epoch, randomness))


def _to_batch(batch: MediaBatch) -> FileBatch:
    return FileBatch(batch.x, batch.lengths)


class FileRegressTask(NeuralRegressTask):
    """Regression on files."""

    media_task: ClassVar[type[MediaTask]]
    """The classifier whose files and network it has."""
    stream_block = 128

    @property
    def reads_texts(self) -> bool:
        return True

    @cached_property
    def media(self) -> MediaTask:
        """A classifier with the network of this task and a class for each output."""
        assert isinstance(self.model.text, FileNetwork)
        return self.media_task(self.config.encoder_config(), _outputs(self.config), self.model.text.media)

    # --- reading ------------------------------------------------------------------------------------------------------

    @classmethod
    def complete(cls, config: RegressConfig, note: Callable[[str], None]) -> RegressConfig:
        data = config.data
        if data.train and data.text_column is None:
            names = open_records(Path(data.train[0]), (), encoding=data.encoding).table.names
            data = data.model_copy(update={"text_column": find_column(names, FILE_COLUMNS)})
        return super().complete(config.model_copy(update={"data": data}), note)

    @classmethod
    def read(
        cls, config: RegressConfig, path: Path, counter: ReadCounter, *, gold: bool = True
    ) -> Iterator[RegressExample]:
        if not gold and (path.is_dir() or media_kind(path) is not None):
            files = [p for p in list_files(path) if media_kind(p) == cls.media_task.media] if path.is_dir() else [path]
            missing = (float("nan"),) * len(config.data.number_columns)
            found: Iterable[RegressExample] = (
                RegressExample(str(file), missing, float("nan"), SourceLocation(str(file), 1))
                for file in counter.seen(files)
            )
        else:
            found = (
                RegressExample(str(path.parent / e.text), e.numbers, e.value, e.location)
                for e in read_values(config.data, path, counter, gold=gold)
            )
        for block in blocks(found, _BLOCK):
            yield from cls._decode(config, block, counter)

    def read_inputs(self, path: Path, counter: ReadCounter) -> Iterator[RegressExample]:
        return self.read(self.config, path, counter, gold=False)

    @classmethod
    def _decode(
        cls, config: RegressConfig, examples: Sequence[RegressExample], counter: ReadCounter
    ) -> list[FileExample]:
        """The examples whose files can be decoded; the others are dropped."""
        own = ReadCounter()
        paths = [Path(example.text) for example in examples]
        contents, kept, rows = cls.media_task.decode_files(config.encoder_config(), paths, own)
        counter.dropped.extend(own.dropped)
        return [
            FileExample(e.text, e.numbers, e.value, e.location, contents[row], weight=e.weight)
            for e, row in ((examples[i], row) for i, row in zip(kept.tolist(), rows.tolist(), strict=True))
        ]

    def to_example(self, item: Any) -> RegressExample:
        if isinstance(item, FileExample):
            return item
        example = item if isinstance(item, RegressExample) else None
        if example is None:
            if not isinstance(item, str | Path) or self.encoding.names:
                raise DataError(
                    f"an input of this model must be the path of a {self.media_task.media}, got {item!r:.60}. Pass "
                    f"paths, or a table if the model also reads numbers."
                )
            example = RegressExample(str(item), (), float("nan"), SourceLocation(str(item), 1))
        return self._with_content([example])[0]

    def _with_content(self, examples: Sequence[RegressExample]) -> list[FileExample]:
        """Decoded files; raise DataError for one that cannot be decoded."""
        counter = ReadCounter()
        given = [example for example in examples if not isinstance(example, FileExample)]
        made = iter(self._decode(self.config, given, counter) if given else ())
        counter.check_none_dropped()
        return [example if isinstance(example, FileExample) else next(made) for example in examples]

    # --- encoding and network -----------------------------------------------------------------------------------------

    @classmethod
    def prepare(cls, config: RegressConfig, sources: Sources[RegressExample], origin: Origin) -> NetworkTraining:
        lines, parts = sources.describe(), sources.split()
        task = cls.new(config, parts.train, origin, lines)
        train, dev, test = (task.encode(part) for part in (parts.train, parts.dev, parts.test))
        if origin.folder is None:
            assert isinstance(train.texts, FileRows)
            task.media.fit_norm(train.texts.rows)
        return NetworkTraining(
            task, Dataset(train, dev, test, [*lines, sources.counts(parts), *describe_parts(parts)]), origin.randomness
        )

    def training_parts(self, sources: Sources[RegressExample]) -> DataParts[RegressExample]:
        return sources.split()

    @classmethod
    def build_network(
        cls, config: RegressConfig, encoding: RegressEncoding, report: list[str] | None = None
    ) -> GaussianNetwork:
        network = super().build_network(config, encoding, report)
        files = FileNetwork(cls.media_task.build_network(config.encoder_config(), _outputs(config)))
        return GaussianNetwork(files, network.numbers)

    def encode(self, examples: Sequence[RegressExample], *, gold: bool = True) -> RegressRows:
        decoded = self._with_content(examples)
        encoded = super().encode(decoded, gold=gold)
        contents = [example.content for example in decoded]
        sound = self.media_task.media == "sound"
        lengths = np.array([len(content) if sound else 1 for content in contents], np.int64)
        rows = MediaRows(contents, np.arange(len(contents)), lengths, [()] * len(contents))
        return RegressRows(FileRows(self.media, rows), encoded.numbers, encoded.values, encoded.weights, encoded.shown)

    def epoch(self, rows: RegressRows, number: int, randomness: Randomness) -> EpochPlan:
        self._train = rows
        plan = BatchPlan.shuffled(rows.lengths, self.config.batches, randomness.numpy("batches", number))
        files: Any = rows.texts

        def batch(index: np.ndarray) -> RegressBatch:
            return RegressBatch(files.augmented(index, number, randomness), *self._numbers(rows, index))

        return PlannedEpoch(plan, batch)

    def baselines(self) -> BaselineSuite:
        raise ConfigError(f"Regression on {self.media_task.media}s has no baselines. Remove --baseline.")


class PictureRegressTask(FileRegressTask):
    """Regression on pictures."""

    media_task = PictureTask
    tokens_at_once = 256  # pictures


class SoundRegressTask(FileRegressTask):
    """Regression on sounds."""

    media_task = SoundTask
    tokens_at_once = 4_000_000  # samples


def _outputs(config: RegressConfig) -> MediaEncoding:
    names = ("mean", "log variance")
    return MediaEncoding(Labels(names[: 2 if config.output.variance == "learned" else 1]))
