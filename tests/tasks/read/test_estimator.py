"""The reader as an estimator."""

from __future__ import annotations

from pathlib import Path

import pytest

import catena
from catena import Reader
from catena.errors import DataError
from tests.tasks.read.test_task import LSTM, rows

SMALL = {
    "min_count": 1,
    "words_d": 12,
    "contextual_d": LSTM["d"],
    "modeling_d": LSTM["d"],
    "end_d": LSTM["d"],
    "dropout": 0.0,
    "batch_size": 16,
    "learning_rate": 0.02,
    "ema": 0.9,
    "max_steps": 60,
    "device": "cpu",
    "threads": 1,
}
PAIRS = [(row["context"], row["question"]) for row in rows()]
ANSWERS = [row["answers"] for row in rows()]


@pytest.fixture(scope="module")
def reader() -> Reader:
    return Reader(**SMALL).fit(PAIRS, ANSWERS)


def test_fitted_reader_predicts_saves_and_loads(reader: Reader, tmp_path: Path) -> None:
    assert reader.score(PAIRS, ANSWERS) > 0.8
    found = reader.predict(PAIRS[:3], n_best=2)
    assert [len(one.n_best) for one in found] == [2, 2, 2]
    reader.save(tmp_path / "saved")
    again = catena.load(tmp_path / "saved", device="cpu")
    assert isinstance(again, Reader)
    assert [str(one) for one in again.predict(PAIRS[:9])] == [str(one) for one in reader.predict(PAIRS[:9])]


def test_reader_answers_from_files_and_folders(reader: Reader, tmp_path: Path) -> None:
    for i in range(7):
        (tmp_path / f"{i}.txt").write_text(PAIRS[9 * i][0] + "\n", encoding="utf-8")
    (one,) = reader.answer(tmp_path / "0.txt", ["Who is it?"])
    assert one.file == str(tmp_path / "0.txt")
    (other,) = reader.answer(tmp_path, ["Who is it?"], n_best=3)
    assert len(other.n_best) == 3
    with pytest.raises(DataError, match="questions must be a list, got one text: 'Who"):
        reader.answer(tmp_path, "Who is it?")


def test_one_answer_no_answer_and_lists_are_targets() -> None:
    made = Reader()._examples([("Ada is here", "Who?")] * 4, ["Ada", None, [], ["Ada", "here"]])
    assert [e.references for e in made] == [("Ada",), (), (), ("Ada", "here")]
    assert made[3].answers[1].start == 7


def test_wrong_targets_raise() -> None:
    with pytest.raises(DataError, match=r"y must have one answer per question \(2\), got 1"):
        Reader().fit([("a", "b")] * 2, ["a"])
    with pytest.raises(DataError, match="x must have pairs of a context and a question"):
        Reader().fit([("a", "b", "c")], ["a"])
