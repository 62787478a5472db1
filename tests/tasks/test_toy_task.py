"""A task of its own, declared as docs/new_task.md describes: it reverses a string, letter by letter.

It gets the command line, the estimator and its run folders from what it declares here.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch
from pydantic import Field
from torch import nn

from catena.config import Config
from catena.data.batches import pad
from catena.data.config import BatchConfig
from catena.data.examples import SourceLocation
from catena.data.reading import ReadCounter
from catena.data.vocabulary import Vocabulary
from catena.errors import DataError
from catena.metrics.classification import ACCURACY
from catena.metrics.measure import Metric
from catena.tasks.base import EvaluationResult, Origin, Prediction
from catena.tasks.config import FilesConfig, MachineConfig, SplitConfig
from catena.tasks.estimator import Estimator
from catena.tasks.neural import NeuralTask
from catena.tasks.options import PredictOptions
from catena.tasks.spec import TASKS, TaskSpec
from catena.training.config import TrainingConfig
from catena.training.task import BatchLoss
from tests.cli.conftest import Catena, catena  # noqa: F401  (a fixture)

# --- the task: everything that a new task needs -----------------------------------------------------------------------


class ReverseData(FilesConfig, SplitConfig):
    """Files of words, one per line."""


class ReverseModel(Config):
    """An embedding and a linear layer."""

    kind: Literal["linear"] = "linear"
    """The model."""
    d: int = Field(16, gt=0)
    """Size of the vector of a letter."""


class ReverseConfig(Config):
    """The config of reversing strings."""

    task: Literal["reverse"] = "reverse"
    """The task this config is for."""
    seed: int = 0
    """The random seed."""
    machine: MachineConfig = MachineConfig()
    data: ReverseData = ReverseData()
    model: ReverseModel = ReverseModel()
    batches: BatchConfig = BatchConfig(batch_size=8)
    training: TrainingConfig = Field(default_factory=lambda: TrainingConfig(max_epochs=30, learning_rate=0.05))


@dataclass(frozen=True)
class Word:
    """A string to reverse."""

    text: str
    place: SourceLocation


@dataclass(frozen=True)
class Reversed(Prediction):
    """A reversed string."""

    text: str
    reversed: str

    def __str__(self) -> str:
        return self.reversed

    def to_dict(self) -> dict[str, Any]:
        return {"text": self.text, "reversed": self.reversed}


@dataclass(frozen=True)
class ReverseEvaluation(EvaluationResult):
    """Reversed strings and their references."""

    gold: list[str]
    predicted: list[str]
    counts: str = ""

    def metrics(self) -> dict[str, Metric]:
        return {"accuracy": ACCURACY}

    def pairs(self, name: str) -> tuple[list[str], list[str]]:
        return self.gold, self.predicted


@dataclass(frozen=True)
class Letters:
    """Encoded strings."""

    words: Sequence[Word]
    ids: list[np.ndarray]

    @property
    def lengths(self) -> np.ndarray:
        return np.array([len(ids) for ids in self.ids])

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class Alphabet:
    """The letters of the training words."""

    letters: Vocabulary

    def save(self, folder: Path) -> None:
        self.letters.save(folder / "letters.json")


class ReverseTask(NeuralTask[ReverseConfig, Word, Reversed, PredictOptions]):
    """Reverses strings: the network maps each letter to itself, the task writes them from the end."""

    name = "reverse"

    @classmethod
    def read(cls, config: ReverseConfig, path: Path, counter: ReadCounter, *, gold: bool = True) -> Iterator[Word]:
        lines = path.read_text(encoding="utf-8").splitlines()
        yield from counter.seen(Word(line, SourceLocation(str(path), i)) for i, line in enumerate(lines, 1))

    @classmethod
    def describe_file(cls, config: ReverseConfig, path: Path) -> str:
        return f"{path.name} has one word per line"

    @classmethod
    def fit_encoding(cls, config: ReverseConfig, train: Sequence[Word], origin: Origin) -> Alphabet:
        counts: dict[str, int] = {}
        for letter in "".join(word.text for word in train):
            counts[letter] = counts.get(letter, 0) + 1
        return Alphabet(Vocabulary.from_counts(counts))

    @classmethod
    def load_encoding(cls, config: ReverseConfig, folder: Path) -> Alphabet:
        return Alphabet(Vocabulary.load(folder / "letters.json"))

    @classmethod
    def build_network(cls, config: ReverseConfig, encoding: Alphabet, report: list[str] | None = None) -> nn.Module:
        v, d = len(encoding.letters), config.model.d
        return nn.Sequential(nn.Embedding(v, d), nn.Linear(d, v))

    def to_example(self, item: Any) -> Word:
        if not isinstance(item, str | Word):
            raise DataError(f"an item must be a string, got {item!r}. Pass strings.")
        return item if isinstance(item, Word) else Word(item, SourceLocation("input", 0))

    def encode(self, examples: Sequence[Word], *, gold: bool = True) -> Letters:
        return Letters(examples, [np.array(self.encoding.letters.ids(word.text), np.int64) for word in examples])

    def collate(self, rows: Letters, index: np.ndarray) -> torch.Tensor:
        return pad([rows.ids[i] for i in index])[0].to(self.device)

    def loss(self, batch: torch.Tensor) -> BatchLoss:
        logits = self.network(batch)
        return BatchLoss(nn.functional.cross_entropy(logits.flatten(0, 1), batch.flatten()), len(batch), batch.numel())

    def predict_examples(self, examples: Sequence[Word], options: PredictOptions) -> list[Reversed]:
        return [Reversed(word.text, text) for word, text in zip(examples, self._reverse(examples), strict=True)]

    def evaluate_rows(self, rows: Letters) -> ReverseEvaluation:
        return ReverseEvaluation([word.text[::-1] for word in rows.words], self._reverse(rows.words))

    @torch.no_grad()
    def _reverse(self, words: Sequence[Word]) -> list[str]:
        found = []
        for ids in self.encode(words).ids:
            best = self.network(torch.from_numpy(ids).to(self.device)).argmax(-1).tolist()
            found.append("".join(self.encoding.letters.tokens(best[::-1])))
        return found

    metric = "accuracy"

    def find_metric(self, name: str) -> Metric:
        return ACCURACY

    def describe(self, top: int) -> list[str]:
        return [f"{len(self.encoding.letters)} letters"]

    def describe_batch(self, batch: torch.Tensor) -> str:
        return f"{len(batch)} words"


SPEC = TaskSpec(
    name="reverse",
    summary="strings into reversed strings",
    config=f"{__name__}:ReverseConfig",
    families={"": f"{__name__}:ReverseTask"},
    estimator=f"{__name__}:Reverser",
)

# --- the tests --------------------------------------------------------------------------------------------------------

MARK = "# --- the t"


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TASKS._table, "reverse", SPEC)
    if "Reverser" not in globals():

        class Reverser(Estimator, task="reverse"):
            """Reverses strings."""

            def _examples(self, x: Any, y: Any) -> list[Word]:
                return [Word(text, SourceLocation("fit", i)) for i, text in enumerate(x)]

        globals()["Reverser"] = Reverser


def test_declaration_of_a_task_takes_at_most_120_statement_lines() -> None:
    source = Path(__file__).read_text(encoding="utf-8").split(MARK)[1]
    lines = [line for line in source.splitlines() if line.strip() and not line.strip().startswith(('"""', "#"))]
    assert len(lines) <= 120


def test_toy_task_trains_predicts_and_evaluates_on_the_command_line(catena: Catena, tmp_path: Path) -> None:  # noqa: F811
    (tmp_path / "words.txt").write_text("\n".join(["abc", "bca", "cab", "acb", "bac"] * 8) + "\n")
    assert catena("train", "reverse", "words.txt", "--device", "cpu", "--d", 8, "-o", "run").code == 0
    assert catena("predict", "run", "words.txt").out.splitlines()[:2] == ["cba", "acb"]
    assert '"reversed": "acb"' in catena("predict", "run", "--text", "bca", "--format", "jsonl").out
    assert catena("evaluate", "run", "words.txt").out.startswith("read 40; used 40; dropped 0\naccuracy 1.0000")
    assert catena("resume", "run", "--max-epochs", 31).code == 0
    assert "--d N" in catena("train", "reverse", "--help-all").out


def test_toy_task_has_an_estimator_with_its_options_as_keywords(tmp_path: Path) -> None:
    model = globals()["Reverser"](d=8, max_epochs=40, learning_rate=0.05).fit(["abc", "bca", "cab"] * 10)
    assert [str(one) for one in model.predict(["cba"])] == ["abc"]
    model.save(tmp_path / "saved")
    assert sys.modules["catena"].load(tmp_path / "saved").predict(["ab"])[0].reversed == "ba"
