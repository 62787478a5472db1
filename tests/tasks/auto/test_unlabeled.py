"""Word vectors of unlabeled text: the candidates that start from them, and what is rejected."""

from __future__ import annotations

from pathlib import Path

import pytest

from catena.config import parse
from catena.errors import ConfigError
from catena.tasks.auto.table import Candidate
from catena.tasks.auto.trials import Slice, run_job
from catena.tasks.auto.unlabeled import check_unlabeled, vectors_job, with_vectors
from catena.tasks.spec import get_spec
from catena.vectors.table import VectorTable

CNN = {"model": {"kind": "cnn", "embedding": {"d": 50}}}


def test_networks_are_followed_by_themselves_with_vectors(tmp_path: Path) -> None:
    candidates = [(Candidate("plain", "x"), {"model": {"kind": "tfidf"}}), (Candidate("cnn", "y"), CNN)]
    plain, cnn, more = with_vectors(get_spec("classify"), candidates, tmp_path)
    assert [plain[1], cnn[1]] == [values for _, values in candidates]
    assert (more[0].name, more[0].about) == ("cnn-vectors", "y, vectors of the unlabeled text")
    embedding = more[1]["model"]["embedding"]
    assert (embedding["mode"], embedding["d"]) == ("tuned", 50)
    assert str(tmp_path) in embedding["vectors"]


def test_taggers_have_them_in_their_words(tmp_path: Path) -> None:
    found = with_vectors(get_spec("tag"), [(Candidate("b", "y"), {"model": {"kind": "neural"}})], tmp_path)
    assert found[1][1]["model"]["words"]["embedding"]["mode"] == "tuned"


def test_vectors_of_a_file_are_trained_where_the_candidates_expect_them(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("the cat sat on the mat\nthe dog sat on the log\n" * 20, encoding="utf-8")
    job = vectors_job([text], tmp_path / "run", 200.0)
    assert isinstance(job, Slice)
    assert (job.task, job.seconds) == ("embed", 30.0)
    outcome = run_job(job)
    assert getattr(outcome, "reason", "") != "failed", outcome
    values = with_vectors(get_spec("classify"), [(Candidate("cnn", "y"), CNN)], tmp_path / "run")[1][1]
    parse(get_spec("classify").config_class(), values)
    table = VectorTable.load(values["model"]["embedding"]["vectors"])
    assert "cat" in table
    assert table.d == 100


def test_other_tasks_and_missing_files_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--unlabeled must be for classify or tag, got the task translate"):
        check_unlabeled(get_spec("translate"), [])
    with pytest.raises(ConfigError, match="--unlabeled must be a file, got"):
        check_unlabeled(get_spec("tag"), [tmp_path / "missing.txt"])
