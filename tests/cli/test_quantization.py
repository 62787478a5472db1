"""``--quantization int8``: supported networks give nearly the same output, the others print an error."""

from __future__ import annotations

from pathlib import Path

import pytest

import catena
from catena.cli.main import main
from catena.engine.int8 import quantize_int8_
from catena.errors import ConfigError
from catena.kernels.linear.int8_weight import Int8Weight
from catena.randomness import Randomness
from catena.tasks.base import Origin
from catena.tasks.converse.generative import GenerativeTask
from catena.tasks.load import load_model
from catena.tasks.sources import Sources
from tests.cli.conftest import Catena
from tests.tasks.converse.helpers import config, write_pairs
from tests.tasks.translate.toy import sentences, write_files

SMALL = ("--threads", "1", "--max-epochs", "1", "-q")
WORDS = ("--tokenizer", "words", "--min-count", "1")
NETWORK = ("--model.d", "16", "--n-heads", "2", "--n-encoder-layers", "1", "--n-decoder-layers", "1", "--d-ff", "16")


def train(folder: Path, task: str, *words: object) -> Path:
    assert main([str(word) for word in ("train", task, *words, *SMALL, "-o", folder / task)]) == 0
    return folder / task


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files, and two small runs."""
    folder = write_files(tmp_path_factory.mktemp("int8"))
    sources = [source for source, _ in sentences()][:20]
    (folder / "text.txt").write_text("the dog sat\na cat ran\n", encoding="utf-8")
    (folder / "words.tsv").write_text(
        "".join(f"{word}\t{' '.join(word)}\n" for text in sources for word in text.lower().split()), encoding="utf-8"
    )
    train(folder, "translate", folder / "dev.tsv", *WORDS, "--model", "transformer", *NETWORK, "--sentences", 1)
    network = ("--model.network.d", 16, "--model.network.d_embedding", 8)
    train(folder, "transduce", folder / "words.tsv", "--model", "seq2seq", *network, "--target-tokens", "symbols")
    return folder


@pytest.fixture
def runs(folder: Path, language_model: Path) -> dict[str, Path]:
    return {"translate": folder / "translate", "transduce": folder / "transduce", "lm": language_model}


def answers(catena: Catena, *words: object) -> str:
    said = catena(*words)
    assert said.code == 0, said.err
    return said.out


@pytest.mark.parametrize(
    ("verb", "task", "file"),
    [
        ("predict", "translate", "dev.en"),
        ("evaluate", "translate", "dev.tsv"),
        ("score", "lm", "text.txt"),
        ("evaluate", "lm", "text.txt"),
        ("predict", "transduce", "words.tsv"),
        ("evaluate", "transduce", "words.tsv"),
    ],
)
def test_quantized_output_has_the_same_number_of_lines(
    verb: str, task: str, file: str, folder: Path, runs: dict[str, Path], catena: Catena
) -> None:
    plain = answers(catena, verb, runs[task], folder / file)
    small = answers(catena, verb, runs[task], folder / file, "--quantization", "int8")
    assert len(small.splitlines()) == len(plain.splitlines())
    if task != "transduce" and verb != "predict":
        assert small != plain, "8-bit weights must change a likelihood"


@pytest.mark.parametrize("task", ["translate", "lm", "transduce"])
def test_every_matrix_is_quantized(task: str, runs: dict[str, Path]) -> None:
    model = load_model(runs[task], quantization="int8")
    held = [p for network in model.networks for p in network.parameters() if p.dim() == 2]
    assert held
    assert all(isinstance(p, Int8Weight) for p in held)
    assert model.predict(["the dog"])


def test_run_is_compared_with_its_quantized_version(folder: Path, catena: Catena) -> None:
    words = ("--metric", "perplexity", "--samples", "20", "--quantization", "int8")
    run = folder / "translate"
    said = answers(catena, "compare", run, run, folder / "dev.tsv", *words)
    assert f"{run} in int8" in said
    assert "-0.0000" not in said


def test_quantized_generation_and_ensemble(folder: Path, runs: dict[str, Path], catena: Catena) -> None:
    assert answers(catena, "generate", runs["lm"], "the dog", "--quantization", "int8").startswith("the dog")
    run = runs["translate"]
    lines = answers(catena, "predict", run, folder / "dev.en", "--ensemble", run, "--quantization", "int8")
    assert len(lines.splitlines()) == 30


def test_unsupported_models_print_error(folder: Path, trained: Path, ngram_model: Path, catena: Catena) -> None:
    for run, task in ((trained, "classify"), (ngram_model, "lm")):
        said = catena("predict", run, folder / "text.txt", "--quantization", "int8")
        assert said.code == 1
        assert said.sentence.startswith(f"{run} is a model of the task {task}, which cannot be quantized; networks of")
    said = catena("chat", folder / "dev.tsv", "--quantization", "int8")
    assert (
        said.sentence
        == f"--quantization works only with trained networks, and {folder / 'dev.tsv'} is a file. Remove the option."
    )
    said = catena("predict", trained, "--quantization", "int4")
    assert said.sentence.startswith("--quantization is 'int4': did you mean 'int8'?")


def test_other_quantizations_raise_error(folder: Path) -> None:
    with pytest.raises(ConfigError, match="quantization must be 'int8' or None, got 'int4'"):
        catena.load(folder / "translate", quantization="int4")


def test_quantized_model_is_not_exported(folder: Path, tmp_path: Path) -> None:
    model = load_model(folder / "translate", quantization="int8")
    with pytest.raises(
        ConfigError, match=r"A model with 8-bit weights cannot be exported. Load it without quantization"
    ):
        model.export("onnx", tmp_path / "out")


def test_generative_conversation_models_are_quantized(tmp_path: Path) -> None:
    own = config(write_pairs(tmp_path / "x.tsv", 3), "seq2seq")
    training = GenerativeTask.prepare(own, Sources(GenerativeTask, own), Origin(Randomness(1)))
    task, dev = training.task, training.data.dev
    (network,) = task.networks
    network.eval()
    before = task.evaluate_dev(dev).scores()["perplexity"]
    quantize_int8_(network)
    after = task.evaluate_dev(dev).scores()["perplexity"]
    assert after == pytest.approx(before, rel=0.02)
    assert after != before
