"""``catena export``: exported models give the same translations."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from catena.cli.main import main
from catena.tasks.load import load_model
from catena.tasks.translate.config import TranslateOptions
from tests.tasks.translate.toy import write_files

TRANSFORMER = [
    "--model", "transformer", "--model.d", "16", "--n-heads", "2", "--n-encoder-layers", "1", "--n-decoder-layers", "1",
    "--d-ff", "16",
]  # fmt: skip
RECURRENT = ["--model", "recurrent", "--cell", "gru", "--model.d", "16", "--d-embedding", "16"]


def trained(folder: Path, network: list[str]) -> Path:
    write_files(folder)
    more = ["--tokenizer", "words", "--min-count", "1", "--threads", "1", "--max-epochs", "1", "--sentences", "1"]
    files = ["--source", folder / "train.en", "--target", folder / "train.de", "-o", folder / "run", "-q"]
    assert main(["train", "translate", *map(str, files), *network, *more]) == 0
    return folder / "run"


@pytest.mark.skipif(find_spec("ctranslate2") is None, reason="needs ctranslate2")
def test_ctranslate2_export_translates_equally(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import ctranslate2

    run = trained(tmp_path, TRANSFORMER)
    assert main(["export", str(run), "--to", "ctranslate2", "-o", str(tmp_path / "out")]) == 0
    assert "wrote" in capsys.readouterr().out
    task = load_model(run, "cpu")
    there = ctranslate2.Translator(str(tmp_path / "out"), "cpu", inter_threads=1, intra_threads=1)
    texts = ["The dog sees a man.", "A bird hears the cat today."]
    given = [[*task.encoding.source.tokenizer.tokens(text), "</s>"] for text in texts]
    found = there.translate_batch(given, beam_size=1, max_decoding_length=6)
    ours = task.predict(texts, TranslateOptions(beam_size=1))
    for theirs, one in zip(found, ours, strict=True):
        assert tuple(theirs.hypotheses[0]) == one.tokens[:6]
    assert (tmp_path / "out" / "vocabulary.json").exists() or (tmp_path / "out" / "target-vocabulary.json").exists()
    assert main(["export", str(run), "-o", str(tmp_path / "out")]) == 1
    assert "already exists" in capsys.readouterr().err


@pytest.mark.skipif(find_spec("onnx") is None, reason="needs onnx")
def test_recurrent_model_exports_only_to_onnx(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = trained(tmp_path, RECURRENT)
    assert main(["export", str(run), "--to", "onnx", "-o", str(tmp_path / "out")]) == 0
    assert {"encoder.onnx", "step.onnx", "signature.json"} <= {path.name for path in (tmp_path / "out").iterdir()}
    assert main(["export", str(run), "--to", "ctranslate2", "-o", str(tmp_path / "other")]) == 1
    assert "Pass --to onnx" in capsys.readouterr().err
    assert main(["export", str(run)]) == 2
    assert "-o is missing" in capsys.readouterr().err


def test_unsupported_export_prints_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = trained(tmp_path, ["--model", "convolutional", "--model.d", "8"])
    assert main(["export", str(run), "--to", "ctranslate2", "-o", str(tmp_path / "out")]) == 1
    assert "CTranslate2 supports only Transformers. Train a Transformer." in capsys.readouterr().err
