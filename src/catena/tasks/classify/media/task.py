"""Classification of pictures and sounds as a task: a network over pixels, or over the frames of a sound.

Files are decoded once before training. Every training example is augmented with random numbers that depend only on the
seed, the epoch and its index, so that a resumed run sees the same pictures and sounds. Tested in
tests/tasks/classify/media/test_task.py.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from catena.data.batches import BatchPlan
from catena.data.config import BatchConfig
from catena.data.examples import SourceLocation
from catena.data.media import LabeledFile
from catena.data.reading import ReadCounter
from catena.data.vocabulary import Labels
from catena.errors import DataError
from catena.randomness import Randomness
from catena.tasks.base import DataParts, Origin, blocks
from catena.tasks.classify.config import ClassifyConfig, ClassifyOptions
from catena.tasks.classify.data import SAMPLES, count_labels, describe_unseen, encode_labels
from catena.tasks.classify.labels import describe_temperature
from catena.tasks.classify.media.data import (
    MediaExample,
    MediaRows,
    describe_parts,
    list_examples,
    split_files,
    split_key,
)
from catena.tasks.classify.model import balanced_weights
from catena.tasks.classify.predict import ClassPrediction
from catena.tasks.classify.task import LabelTask
from catena.tasks.config import LABELS
from catena.tasks.neural import Dataset, NetworkTraining, PlannedEpoch
from catena.tasks.sources import Sources
from catena.training.task import BatchLoss, EpochPlan

_BLOCK = 64
"""Number of files of a stream that are decoded together."""


@dataclass(frozen=True, eq=False)
class MediaBatch:
    """Pictures (b c height width), or frames of sounds (b t d) with their numbers, and the gold classes in training."""

    x: Float[Tensor, "b ..."]
    lengths: Tensor | None = None
    targets: Tensor | None = None

    @property
    def size(self) -> int:
        return len(self.x)


@dataclass(frozen=True, eq=False)
class MediaEncoding:
    """The names of the classes."""

    names: Labels

    def save(self, folder: Path) -> None:
        self.names.save(folder / LABELS)


class MediaNetwork(nn.Module):
    """A network over pictures or sounds, with the temperature of its probabilities.

    Args:
        network: returns a value with the field ``scores``, and for pictures ``auxiliary``.
    """

    temperature: Tensor

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network
        self.register_buffer("temperature", torch.ones(()))

    def forward(self, batch: MediaBatch) -> Any:
        return self.network(batch.x) if batch.lengths is None else self.network(batch.x, batch.lengths)


class MediaTask(LabelTask[MediaExample]):
    """A classifier of files."""

    media: ClassVar[str]
    """What a file is: picture or sound."""
    stream_block = 128  # a minute of sound has 2 MB

    # --- defined by pictures and sounds -------------------------------------------------------------------------------

    @classmethod
    @abstractmethod
    def decode_files(
        cls, config: ClassifyConfig, paths: Sequence[Path], counter: ReadCounter, *, use_cache: bool = False
    ) -> tuple[Any, np.ndarray, np.ndarray]:
        """Decode files.

        Returns:
            The contents; for each decoded file its index in ``paths``; and for each its index in the contents.
        """

    @classmethod
    @abstractmethod
    def build_network(
        cls, config: ClassifyConfig, encoding: MediaEncoding, report: list[str] | None = None
    ) -> MediaNetwork:
        """The network of pictures or sounds."""

    @abstractmethod
    def fit_norm(self, rows: MediaRows) -> None:
        """Set mean and deviation of the inputs of the network from the training files."""

    @abstractmethod
    def load_batch(self, rows: MediaRows, index: np.ndarray) -> MediaBatch:
        """The files at ``index`` on the device of the network, without augmentation."""

    @abstractmethod
    def augment_batch(self, rows: MediaRows, index: np.ndarray, epoch: int, randomness: Randomness) -> MediaBatch:
        """The files at ``index`` on the device of the network, changed at random."""

    # --- reading ------------------------------------------------------------------------------------------------------

    @classmethod
    def read(
        cls, config: ClassifyConfig, path: Path, counter: ReadCounter, *, gold: bool = True
    ) -> Iterator[MediaExample]:
        for block in blocks(list_examples(config.data, path, counter, gold=gold), _BLOCK):
            yield from cls._decode_block(config, block, counter)

    @classmethod
    def _decode_block(
        cls, config: ClassifyConfig, files: Sequence[LabeledFile], counter: ReadCounter
    ) -> Iterator[MediaExample]:
        decoded = ReadCounter()
        contents, kept, rows = cls.decode_files(config, [file.path for file in files], decoded)
        counter.dropped.extend(decoded.dropped)
        for i, row in zip(kept.tolist(), rows.tolist(), strict=True):
            yield MediaExample(files[i].path, files[i].labels, files[i].location, contents[row])

    @classmethod
    def describe_file(cls, config: ClassifyConfig, path: Path) -> str:
        what = "a folder for each label" if path.is_dir() else "a table with a column of file names"
        return f"{path} is {what}, read as {cls.media}s"

    def to_example(self, item: Any) -> MediaExample:
        if isinstance(item, MediaExample):
            return item
        if not isinstance(item, str | Path):
            raise DataError(f"a {self.media} must be the path of a file, got {type(item).__name__}. Pass paths.")
        counter = ReadCounter()
        file = LabeledFile(Path(item), (), SourceLocation(str(item), 1))
        found = next(self._decode_block(self.config, [file], counter), None)
        if found is None:
            raise DataError(counter.dropped[0].text)
        return found

    @classmethod
    def split_key(cls, example: MediaExample) -> str:
        return split_key(example.path)

    @classmethod
    def split_group(cls, example: MediaExample) -> Hashable:
        return example.labels

    # --- training data ------------------------------------------------------------------------------------------------

    def training_parts(self, sources: Sources[MediaExample]) -> DataParts[MediaExample]:
        files, contents, rows = self._decode_parts(self.config, sources)
        every = [file for part in files.values() for file in part]
        index = split_files(self.config, sources, files)
        made = [MediaExample(e.path, e.labels, e.location, contents[row]) for e, row in zip(every, rows, strict=True)]
        return DataParts(*([made[i] for i in index[part]] for part in ("train", "dev", "test")))

    @classmethod
    def prepare(cls, config: ClassifyConfig, sources: Sources[MediaExample], origin: Origin) -> NetworkTraining:
        """As in the base class, but files are listed first and then decoded together into one array."""
        lines = sources.describe()
        files, contents, rows = cls._decode_parts(config, sources)
        every = [file for part in files.values() for file in part]
        parts = split_files(config, sources, files)
        own = parts["train"] if "dev" in sources else np.union1d(parts["train"], parts["dev"])
        names = count_labels([every[i].labels for i in own], config)
        encoding = cls.load_encoding(config, origin.folder) if origin.folder else MediaEncoding(names)
        origin.randomness.seed_torch("weights")
        task = cls(config, encoding, cls.build_network(config, encoding))
        made = {part: task._rows(contents, rows[index], [every[i] for i in index]) for part, index in parts.items()}
        for part in ("train", "dev"):
            sources.check(part, len(made[part]))
        task._check_labels(made["train"])
        task.fit_norm(made["train"])
        task._set_class_weights(made["train"])
        lines.append(sources.counter.counts(len(every)).sentence())
        lines += describe_parts(cls.media, made, task.labels, task.sample_rate)
        held = [*made["dev"].gold, *made["test"].gold]
        lines += describe_unseen(held, task.labels, "dev and test", "files have a label")
        return NetworkTraining(task, Dataset(made["train"], made["dev"], made["test"], lines), origin.randomness)

    @classmethod
    def _decode_parts(
        cls, config: ClassifyConfig, sources: Sources[MediaExample]
    ) -> tuple[dict[str, list[LabeledFile]], Any, np.ndarray]:
        """The decoded files of each part, their contents, and the index of each file in the contents."""
        if sources.given:
            given = {part: list(sources.read(part)) for part in ("train", "dev", "test")}
            files = {part: [LabeledFile(e.path, e.labels, e.location) for e in some] for part, some in given.items()}
            contents = [example.content for some in given.values() for example in some]
            return files, contents, np.arange(len(contents))
        if not sources.paths("train"):
            raise DataError(f"There is nothing to train on. Name a folder, as in 'catena train {cls.name} FOLDER'.")
        reader = partial(list_examples, config.data)
        listed = {part: list(sources.read(part, reader)) for part in ("train", "dev", "test")}
        every = [(part, file) for part, some in listed.items() for file in some]
        decoded = ReadCounter()
        contents, kept, rows = cls.decode_files(config, [file.path for _, file in every], decoded, use_cache=True)
        sources.counter.dropped.extend(decoded.dropped)
        files = {part: [every[i][1] for i in kept if every[i][0] == part] for part in listed}
        if not files["train"] and decoded.dropped:
            raise DataError(f"train has no {cls.media} that can be decoded. The first error: {decoded.dropped[0].text}")
        return files, contents, rows

    def _rows(self, contents: Any, rows: np.ndarray, files: Sequence[LabeledFile | MediaExample]) -> MediaRows:
        lengths = np.array([self._length(contents[i]) for i in rows.tolist()], np.int64)
        shown = np.linspace(0, len(files) - 1, min(SAMPLES, len(files))).astype(int).tolist()
        names = {i: split_key(files[i].path) for i in shown}
        return MediaRows(contents, rows, lengths, [file.labels for file in files], names)

    def _length(self, content: np.ndarray) -> int:
        return 1

    @property
    def sample_rate(self) -> int:
        """Samples in a second; 0 for pictures."""
        return 0

    def _check_labels(self, rows: MediaRows) -> None:
        """Raise DataError if a label of train is not a class of the run that the weights come from."""
        unknown = sorted({label for labels in rows.gold for label in labels} - set(self.labels))
        if unknown:
            raise DataError(
                f"the labels of train must be classes of the older run, got {unknown[0]!r}. Use --relabel, or train "
                f"without --init-from."
            )

    def _set_class_weights(self, rows: MediaRows) -> None:
        if self.config.loss.class_weights != "none" and not self.multilabel:
            counts = np.bincount(encode_labels(rows.gold, self.labels, False), minlength=len(self.names))
            self._class_weights = balanced_weights(torch.from_numpy(counts))

    # --- the network --------------------------------------------------------------------------------------------------

    @classmethod
    def fit_encoding(cls, config: ClassifyConfig, train: Sequence[MediaExample], origin: Origin) -> MediaEncoding:
        return MediaEncoding(count_labels([example.labels for example in train], config))

    @classmethod
    def load_encoding(cls, config: ClassifyConfig, folder: Path) -> MediaEncoding:
        return MediaEncoding(Labels.load(folder / LABELS))

    def encode(self, examples: Sequence[MediaExample], *, gold: bool = True) -> MediaRows:
        return self._rows([example.content for example in examples], np.arange(len(examples)), examples)

    def epoch(self, rows: MediaRows, number: int, randomness: Randomness) -> EpochPlan:
        plan = BatchPlan.shuffled(rows.lengths, self.config.batches, randomness.numpy("batches", number))
        targets = encode_labels(rows.gold, self.labels, self.multilabel)

        def batch(index: np.ndarray) -> MediaBatch:
            made = self.augment_batch(rows, index, number, randomness)
            return MediaBatch(made.x, made.lengths, torch.from_numpy(targets[index]).to(self.device))

        return PlannedEpoch(plan, batch)

    def collate(self, rows: MediaRows, index: np.ndarray) -> MediaBatch:
        batch = self.load_batch(rows, index)
        targets = encode_labels([rows.gold[i] for i in index], self.labels, self.multilabel)
        return MediaBatch(batch.x, batch.lengths, torch.from_numpy(targets).to(self.device))

    def loss(self, batch: MediaBatch) -> BatchLoss:
        output = self._network(batch)
        total = self._mean_loss(output.scores, batch)
        for scores in getattr(output, "auxiliary", ()):
            total = total + self.config.model.encoder.auxiliary_weight * self._mean_loss(scores, batch)  # type: ignore[union-attr]
        return BatchLoss(total, batch.size, batch.size)

    def _mean_loss(self, logits: Float[Tensor, "b k"], batch: MediaBatch) -> Float[Tensor, ""]:
        assert batch.targets is not None
        if self.multilabel:
            return self._loss.several(logits, batch.targets).mean()
        losses = self._loss.single(logits, batch.targets, self.config.loss.label_smoothing)
        if self._class_weights is not None:
            losses = losses * self._class_weights.to(losses.device)[batch.targets]
        return losses.mean()

    # --- evaluation and prediction ------------------------------------------------------------------------------------

    def _logits(self, rows: MediaRows) -> Float[Tensor, "n k"]:
        """The scores in the order of ``rows``; files of similar length are scored together."""
        plan = BatchPlan.by_length(rows.lengths, BatchConfig(batch_size=self.config.evaluation.texts_at_once))
        logits = torch.zeros(len(rows), len(self.names))
        with torch.inference_mode():
            for index in plan:
                logits[torch.from_numpy(index)] = self._network(self.load_batch(rows, index)).scores.float().cpu()
        return logits

    def predict_examples(self, examples: Sequence[MediaExample], options: ClassifyOptions) -> list[ClassPrediction]:
        log_probs = self.log_probabilities(examples)
        return self._predictions([str(example.path) for example in examples], log_probs, options, key="file")

    def log_probabilities(self, items: Sequence[Any]) -> np.ndarray:
        """The log-probability of every class for each file, in nats."""
        if not len(items):
            return np.zeros((0, len(self.names)))
        return self._log_probs(self._logits(self.encode([self.to_example(item) for item in items], gold=False)))

    def describe_batch(self, batch: MediaBatch) -> str:
        longest = "" if batch.lengths is None else f", longest {int(batch.lengths.max())} frames"
        return f"{batch.size} {self.media}s{longest}"

    def describe(self, top: int) -> list[str]:
        model: Any = self.config.model
        return [
            f"a classifier of {self.media}s with the encoder {model.encoder.kind}: {len(self.names)} classes, "
            f"{self.n_parameters:,} parameters",
            f"classes: {', '.join(self.labels)}",
            describe_temperature(self.config, float(self.temperature)),
        ]
