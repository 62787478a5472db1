"""``catena evaluate``: scores with intervals and signatures, for people and for programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from catena.cli.evaluate import check_search
from catena.cli.usage import UsageError
from catena.data.readers.tsv_label import read
from catena.tasks.application import PredictOptions
from tests.cli.conftest import Catena, matches


def test_scores_are_those_of_the_predictions(catena: Catena, files: Path, trained: Path) -> None:
    said = catena("evaluate", trained, files / "dev.tsv")
    assert said.code == 0
    guessed = catena("predict", trained, files / "dev.tsv", "--format", "text").out.splitlines()
    right = [example.labels[0] for example in read(files / "dev.tsv")]
    accuracy = sum(a == b for a, b in zip(right, guessed, strict=True)) / len(right)
    assert said.out.splitlines()[0] == f"read {len(right)}; used {len(right)}; dropped 0"
    assert f"accuracy {accuracy:.4f} (95 % interval 0." in said.out
    assert f"accuracy|n={len(right)}" in said.out
    assert "macro average" in said.out
    found = json.loads(catena("evaluate", trained, files / "dev.tsv", "--format", "json").out)
    assert found["scores"]["accuracy"] == pytest.approx(accuracy)
    assert found["signatures"]["macro_f1"] == f"f1|average:macro|n={len(right)}"


def test_flags_of_the_search_that_a_model_has_no_use_for() -> None:
    class Writer:
        asks = frozenset({"n_best", "scores", "max_length"})
        task_name = "a model of the task converse"

    sentence = "a model of the task converse is not evaluated with --beam-size, but --max-length: leave it out"
    with pytest.raises(UsageError, match=sentence):
        check_search(Writer(), PredictOptions(beam_size=2))  # type: ignore[arg-type]
    check_search(Writer(), PredictOptions(max_length=2))  # type: ignore[arg-type]


def test_any_part_of_a_run_can_be_scored(catena: Catena, files: Path, trained: Path) -> None:
    whole = catena("evaluate", trained, files / "dev.tsv").out
    for part in ("best", "last"):
        assert catena("evaluate", trained / part, files / "dev.tsv").out == whole


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "is empty: there is nothing to recognize"),
        (b"just words\n", "which has no labeled texts"),
        ("weather\tcaf\xe9\nweather\tno\n".encode("latin-1") * 5, "x:1 is not UTF-8: byte 0xe9"),
    ],
)
def test_files_that_cannot_be_scored(
    catena: Catena, trained: Path, tmp_path: Path, content: bytes, sentence: str
) -> None:
    (tmp_path / "x").write_bytes(content)
    said = catena("evaluate", trained, "x")
    assert said.code == 1
    assert sentence in said.sentence


def test_labels_that_training_never_showed_count_as_errors(catena: Catena, trained: Path, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"sports\twho won\nweather\train\n" * 4)
    said = catena("evaluate", trained, "x")
    assert said.code == 0, said.err
    assert "4 texts have a label that training never showed ('sports' 4); they count as errors" in said.out


def test_an_encoding_can_be_named(catena: Catena, trained: Path, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes("weather\tcaf\xe9\nplay_music\tno\n".encode("latin-1") * 5)
    assert catena("evaluate", trained, "x", "--encoding", "latin-1").code == 0


def test_a_folder_that_is_no_run(catena: Catena, files: Path) -> None:
    said = catena("evaluate", files, files / "dev.tsv")
    assert said.code == 1
    assert matches(said.sentence, f"{files} is neither a run (it has no meta.json and checkpoints) nor a checkpoint …")
