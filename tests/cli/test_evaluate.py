"""``catena evaluate``: scores with intervals and signatures, as text and as JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from catena.data.records import read_examples
from tests.cli.conftest import Catena, matches


def test_accuracy_matches_predictions(catena: Catena, files: Path, trained: Path) -> None:
    said = catena("evaluate", trained, files / "dev.tsv")
    assert said.code == 0
    guessed = catena("predict", trained, files / "dev.tsv", "--format", "text").out.splitlines()
    right = [example.labels[0] for example in read_examples(files / "dev.tsv")]
    accuracy = sum(a == b for a, b in zip(right, guessed, strict=True)) / len(right)
    assert said.out.splitlines()[0] == f"read {len(right)}; used {len(right)}; dropped 0"
    assert f"accuracy {accuracy:.4f} (95 % interval 0." in said.out
    assert f"accuracy|n={len(right)}" in said.out
    assert "macro average" in said.out
    found = json.loads(catena("evaluate", trained, files / "dev.tsv", "--format", "json").out)
    assert found["scores"]["accuracy"] == pytest.approx(accuracy)
    assert found["signatures"]["macro_f1"] == f"f1|average:macro|n={len(right)}"


def test_checkpoints_of_a_run_can_be_evaluated(catena: Catena, files: Path, trained: Path) -> None:
    whole = catena("evaluate", trained, files / "dev.tsv").out
    for part in ("best", "last"):
        assert catena("evaluate", trained / part, files / "dev.tsv").out == whole


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "is empty. Pass a file with text."),
        (b"just words\n", "has no label: it is plain text"),
        ("weather\tcaf\xe9\nweather\tno\n".encode("latin-1") * 5, "x:1 is not UTF-8: byte 0xe9"),
    ],
)
def test_invalid_files_print_error(
    catena: Catena, trained: Path, tmp_path: Path, content: bytes, sentence: str
) -> None:
    (tmp_path / "x").write_bytes(content)
    said = catena("evaluate", trained, "x")
    assert said.code == 1
    assert sentence in said.sentence


def test_unseen_labels_count_as_errors(catena: Catena, trained: Path, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"sports\twho won\nweather\train\n" * 4)
    said = catena("evaluate", trained, "x")
    assert said.code == 0, said.err
    assert "4 texts have a label that training never showed ('sports' 4); they count as errors" in said.out


def test_encoding_option_reads_latin_1(catena: Catena, trained: Path, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes("weather\tcaf\xe9\nplay_music\tno\n".encode("latin-1") * 5)
    assert catena("evaluate", trained, "x", "--encoding", "latin-1").code == 0


def test_evaluate_folder_without_run_prints_error(catena: Catena, files: Path) -> None:
    said = catena("evaluate", files, files / "dev.tsv")
    assert said.code == 1
    assert matches(said.sentence, f"{files} is neither a run (no meta.json and checkpoints) nor a checkpoint …")
