"""n-gram models as ARPA files: export, import, and comparison with a simple reader."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from catena import config as configs
from catena.errors import CatenaError, CheckpointError, ConfigError, DataError
from catena.tasks.lm.config import LmConfig
from catena.tasks.load import load_model
from catena.tasks.runs import train_run
from catena.training.report import SilentReporter
from tests.tasks.lm.helpers import evaluate_file

LINES = ["the cat sat on the mat .", "Anna ran away", "", "the dog sat", "a cat ran to the mat ."] * 4


def train(folder: Path, **model: object) -> Path:
    text = folder / "text.txt"
    text.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    values = {
        "machine": {"device": "cpu"},
        "tokenizer": {"kind": "whitespace", "lowercase": False},
        "vocabulary": {"min_count": 1},
        "data": {"train": [str(text)], "dev": str(text)},
        "model": model,
        "training": {"max_epochs": 1},
    }
    train_run(configs.parse(LmConfig, values), folder / "run", SilentReporter())
    return folder / "run"


def by_hand(path: Path, words: list[str]) -> float:
    """log p of a sentence by the definition of back-off, from the lines of the file."""
    probs: dict[tuple[str, ...], float] = {}
    backoffs: dict[tuple[str, ...], float] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        fields = line.split("\t")
        if len(fields) > 1:
            gram = tuple(fields[1].split())
            probs[gram], backoffs[gram] = float(fields[0]), float(fields[2]) if len(fields) > 2 else 0.0

    def log10(history: tuple[str, ...], word: str) -> float:
        if (*history, word) in probs or not history:
            return probs[(*history, word)]
        return backoffs.get(history, 0.0) + log10(history[1:], word)

    whole = ["<s>", *words, "</s>"]
    return math.log(10) * sum(log10(tuple(whole[max(0, i - 2) : i]), whole[i]) for i in range(1, len(whole)))


def test_exported_arpa_equals_the_model_in_other_readers(tmp_path: Path) -> None:
    run, path = train(tmp_path, kind="ngram", order=3), tmp_path / "model.arpa"
    model = load_model(run)
    model.export("arpa", path)
    again = load_model(path)
    texts = ["the dog ran away", "Anna sat", "a mat sat on the cat", "mat mat", ""]
    for text, before, after in zip(texts, model.predict(texts), again.predict(texts), strict=True):
        assert after.log_prob == pytest.approx(before.log_prob, abs=1e-5)
        assert after.log_prob == pytest.approx(by_hand(path, text.split()), abs=1e-5)
    assert again.predict(["zebra"])[0].unknown == 1
    before, after = (evaluate_file(one, tmp_path / "text.txt").scores() for one in (model, again))
    assert after["perplexity"] == pytest.approx(before["perplexity"], rel=1e-6)


def test_open_file_reads_saved_model_and_rejects_kenlm_binary(tmp_path: Path) -> None:
    model = load_model(train(tmp_path, kind="ngram", order=2))
    model.stepper.save(tmp_path / "model.ngram")
    assert load_model(tmp_path / "model.ngram").predict(["the cat"]) == model.predict(["the cat"])
    (tmp_path / "model.binary").write_bytes(b"mmap lm http://kheafield.com/code format version 5\n\0")
    with pytest.raises(CheckpointError, match="is a KenLM binary file"):
        load_model(tmp_path / "model.binary")
    with pytest.raises(DataError, match="holds n-grams, which cannot be quantized"):
        load_model(tmp_path / "model.ngram", quantization="int8")


def test_export_with_invalid_arguments_raises(tmp_path: Path) -> None:
    model, path = load_model(train(tmp_path, kind="ngram", order=2)), tmp_path / "model.arpa"
    with pytest.raises(ConfigError, match="--to must be arpa for a language model, got 'onnx'"):
        model.export("onnx", path)
    with pytest.raises(ConfigError, match="--quantization applies only to networks, got 'int8'"):
        model.export("arpa", path, "int8")
    with pytest.raises(DataError, match="Folder not found"):
        model.export("arpa", tmp_path / "nowhere" / "model.arpa")
    path.write_text("mine", encoding="utf-8")
    with pytest.raises(DataError, match="exists already"):
        model.export("arpa", path)
    assert path.read_text(encoding="utf-8") == "mine"
    (tmp_path / "other").mkdir()
    small = {"embedding": {"d": 4}, "encoder": {"d": 4, "n_layers": 1}}
    network = load_model(train(tmp_path / "other", kind="rnn", **small))
    with pytest.raises(CatenaError, match="cannot be exported"):
        network.export("arpa", tmp_path / "network.arpa")
