"""The config of word vectors. Imports no torch.

Tested in tests/tasks/embed/test_evaluation.py and tests/tasks/embed/test_baselines.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field

from catena.data.config import TokenizerConfig, WhitespaceTokenizerConfig
from catena.tasks.config import BaseFilesConfig, MachineConfig
from catena.tasks.options import PredictOptions
from catena.training.config import Duration, parse_duration
from catena.vectors.config import VectorConfig, VectorTrainingConfig


class EmbedDataConfig(BaseFilesConfig):
    """The text. Word vectors need no dev or test set."""

    PATHS: ClassVar[tuple[str, ...]] = ("train",)

    train: tuple[str, ...] = ()
    """Text files, plain or compressed, with words separated by spaces and a sentence or document per line. Of tables
    (.csv, .tsv, .jsonl, .parquet) one column is read, each row as a line."""
    input_format: Literal["auto", "text", "csv", "tsv", "jsonl", "parquet"] = "auto"
    """Format of the files. auto detects it from the file name; text reads the lines of any file."""
    text_column: str | None = None
    """Text column of tables. Detected by name if not set."""
    encoding: str | None = None
    """Encoding of the files if they are not UTF-8, such as latin-1."""

    def files(self) -> dict[str, Path]:
        """The training files by their role; multiple files are numbered."""
        return {f"train-{i + 1}" if i else "train": Path(path) for i, path in enumerate(self.train)}


class EmbedTrainingConfig(VectorTrainingConfig):
    """Epochs, time limit, learning rate, subsampling and checkpoints."""

    max_time: Duration | None = None
    """Time limit for the training, such as 90s, 5m or 1h30m. The learning rate then falls with the time, too."""

    @property
    def max_seconds(self) -> float | None:
        """max_time in seconds."""
        return None if self.max_time is None else parse_duration(self.max_time)


class EmbedConfig(VectorConfig):
    """Word vectors."""

    task: Literal["embed"] = "embed"
    """The task this config is for."""
    data: EmbedDataConfig = EmbedDataConfig()
    """The text."""
    tokenizer: TokenizerConfig = WhitespaceTokenizerConfig()
    """Tokenizer of lines. All kinds except whitespace (with or without lowercase) are much slower."""
    training: EmbedTrainingConfig = EmbedTrainingConfig()
    """Epochs, time limit, learning rate, subsampling and checkpoints."""

    @property
    def machine(self) -> MachineConfig:
        """The device and threads of a run; word vectors are trained on a CPU."""
        return MachineConfig(device="cpu", threads=self.threads)


class EmbedOptions(PredictOptions):
    """Options of the nearest words."""

    n_best: int = Field(10, ge=1)
    """Return the N nearest words, best first."""
