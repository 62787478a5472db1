"""A small language of a dozen words and its translation, with case marking and word order changes."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from catena import config as configs
from catena.tasks.sources import Sources
from catena.tasks.translate.config import TranslateConfig
from catena.tasks.translate.data import PairRows, TranslationExample, prepare_pairs
from catena.tasks.translate.encoding import PairEncoding
from catena.tasks.translate.task import TranslateTask

NOUNS = {
    "the dog": ("der Hund", "den Hund"),
    "the cat": ("die Katze", "die Katze"),
    "a man": ("ein Mann", "einen Mann"),
    "the child": ("das Kind", "das Kind"),
    "a bird": ("ein Vogel", "einen Vogel"),
}
VERBS = {"sees": "sieht", "hears": "hört", "looks for": "sucht"}
WHEN = {"": "", " today": " heute", " in the garden": " im Garten"}


def sentences() -> list[tuple[str, str]]:
    """All pairs, in a random order."""
    listed = [
        (f"{who} {does} {whom}{when}.".capitalize(), f"{wer} {tut}{wann} {wen}.")
        for who, (wer, _) in NOUNS.items()
        for does, tut in VERBS.items()
        for whom, (_, wen) in NOUNS.items()
        for when, wann in WHEN.items()
    ]
    listed = [(x, y[0].upper() + y[1:]) for x, y in listed]
    random.Random(0).shuffle(listed)
    return listed


def write_files(folder: Path) -> Path:
    """train and dev as two files each, all and dev as one of two columns; ``folder``."""
    listed = sentences()
    for name, part in (("train", listed[:195]), ("dev", listed[195:])):
        (folder / f"{name}.en").write_text("".join(f"{x}\n" for x, _ in part), encoding="utf-8")
        (folder / f"{name}.de").write_text("".join(f"{y}\n" for _, y in part), encoding="utf-8")
    for name, part in (("all", listed), ("dev", listed[195:])):
        (folder / f"{name}.tsv").write_text("".join(f"{x}\t{y}\n" for x, y in part), encoding="utf-8")
    return folder


RECURRENT: dict[str, Any] = {
    "kind": "recurrent", "cell": "gru", "d": 48, "d_embedding": 48, "dropout": 0.0, "input_feeding": False,
}  # fmt: skip
TRANSFORMER: dict[str, Any] = {
    "kind": "transformer", "d": 32, "n_heads": 2, "n_encoder_layers": 1, "n_decoder_layers": 2, "d_ff": 64,
    "dropout": 0.0,
}  # fmt: skip


def toy_config(folder: Path, model: dict[str, Any] | None = None, **sections: Any) -> TranslateConfig:
    """A config over the files of :func:`write_files` that is trained in a second or two."""
    files = {
        "source": [str(folder / "train.en")],
        "target": [str(folder / "train.de")],
        "dev_source": str(folder / "dev.en"),
        "dev_target": str(folder / "dev.de"),
    }
    values: dict[str, Any] = {
        "machine": {"device": "cpu", "threads": 1},
        "tokenizer": {"kind": "words"},
        "vocabulary": {"min_count": 1},
        "model": model or RECURRENT,
        "batches": {"batch_size": 16, "batch_by": "examples"},
        "training": {"optimizer": "adam", "learning_rate": 0.01, "max_epochs": 1},
        "evaluation": {"sentences": 30},
        **sections,
    }
    values["data"] = sections.get("data", files)
    return configs.parse(TranslateConfig, values)


@dataclass(frozen=True)
class Prepared:
    """The pairs of a config as they are trained on."""

    train: PairRows
    dev: PairRows
    test: PairRows
    lines: list[str]
    sources: Sources[TranslationExample]

    @property
    def encoding(self) -> PairEncoding:
        return self.train.pairs.encoding


def prepare(config: TranslateConfig, given: Mapping[str, list[TranslationExample]] | None = None) -> Prepared:
    """Read and encode the files of a config, or given examples."""
    sources = Sources(TranslateTask, config, given)
    parts, lines = prepare_pairs(config, sources)
    return Prepared(parts["train"], parts["dev"], parts["test"], lines, sources)


def texts(rows: PairRows) -> list[tuple[str, str]]:
    """The sources and targets of dev or test."""
    return [(example.source, example.target) for example in rows.examples]
