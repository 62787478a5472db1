"""``Responder``: contexts and responses from Python."""

from __future__ import annotations

from pathlib import Path

import pytest

from catena.errors import DataError
from catena.tasks.converse.estimator import Responder

CONTEXTS = ["when do you open", "where are you", "who are you"]
RESPONSES = ["at nine", ["in the city", "here"], "a shop"]


def test_responder_fits_predicts_evaluates_and_loads(tmp_path: Path) -> None:
    model = Responder("bm25", against="both", dev_fraction=0.4, candidates=3).fit(CONTEXTS * 3, RESPONSES * 3)
    (prediction,) = model.predict(["where __eot__ and when do you open"], n_best=2)
    assert prediction.context == ("where", "and when do you open")
    assert prediction.response == "at nine"
    assert len(prediction.n_best) == 2
    assert 0 <= model.evaluate(CONTEXTS, RESPONSES).scores()["mrr"] <= 1
    model.save(tmp_path / "model")
    again = Responder.load(tmp_path / "model").predict(["where is it", ""])
    assert again == model.predict(["where is it", ""])
    assert again[1].response is None


def test_dual_encoder_is_saved_with_its_responses(tmp_path: Path) -> None:
    model = Responder("dual", max_epochs=1, dev_fraction=0.4, threads=1).fit(CONTEXTS * 3, RESPONSES * 3)
    model.save(tmp_path / "model")
    before, after = (one.predict(["where are you"], n_best=9)[0] for one in (model, Responder.load(tmp_path / "model")))
    assert [one.response for one in before.n_best] == [one.response for one in after.n_best]
    assert {one.response for one in before.n_best} <= {"at nine", "in the city", "here", "a shop"}


def test_dialogues_without_y_are_all_responses() -> None:
    dialogues = [[f"hello {i}", "hi there", "who are you", "a shop\nin town"] for i in range(4)]
    model = Responder("bm25", against="both", dev_fraction=0.3).fit(dialogues)
    texts = {one.response for one in model.predict(["hello hi"], n_best=9)[0].n_best}
    assert texts == {"hi there", "who are you", "a shop in town"}


@pytest.mark.parametrize(
    ("x", "y", "words"),
    [
        (CONTEXTS, RESPONSES[:2], r"y must have one response per context \(3\), got 2"),
        ([""], ["a"], "context 1 must have a turn"),
        ([["a", 1]], ["b"], "turns of item 1 must be strings"),
        (["a"], [3], "responses of item 1 must be strings"),
    ],
)
def test_unusable_examples_raise(x: list, y: list, words: str) -> None:
    with pytest.raises(DataError, match=words):
        Responder("bm25").fit(x, y)


@pytest.mark.parametrize("model", ["bm25", "tfidf"])
def test_questions_of_training_get_their_answers(model: str) -> None:
    """Answers have no word of their question, so that only the question can find them."""
    pairs = [(f"where is the {thing}", f"look at number {i}") for i, thing in enumerate(("cat", "dog", "owl"))]
    questions, answers = zip(*pairs, strict=True)
    responder = Responder(model, train_on_dev=True).fit(questions, answers)
    assert [one.response for one in responder.predict(questions)] == list(answers)


def test_contexts_that_are_not_texts_raise_error() -> None:
    responder = Responder("bm25").fit(CONTEXTS * 3, RESPONSES * 3)
    for wrong in (None, 3, b"hello", ["a", 2]):
        with pytest.raises(DataError, match=r"a context must be a text or a list of turns, got .*Pass strings\.$"):
            responder.predict([wrong])
