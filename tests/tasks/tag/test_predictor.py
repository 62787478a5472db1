"""Prediction with a trained tagger: texts, words and files, with all options and formats."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from catena.data.readers import columns as column_reader
from catena.data.readers import conllu
from catena.errors import DataError, FormatError, ImpossibleError
from catena.tasks.application import PredictOptions, ReadOptions
from catena.tasks.tag import predictor as module
from catena.tasks.tag.predictor import TagPredictor
from catena.tasks.words.sentences import Sentence
from tests.laws.blank_laws import blank_is_answered_by_nothing
from tests.laws.network_laws import the_network_answers
from tests.tasks.tag.helpers import SENTENCES, config, trained, write
from tests.tasks.tag.test_dataset import CONLLU


@pytest.fixture(scope="module")
def tagger(tmp_path_factory: pytest.TempPathFactory) -> TagPredictor:
    folder = tmp_path_factory.mktemp("tagger")
    made = config(write(folder / "train.conll"), training={"max_epochs": 12, "patience": 0})
    return trained(made, folder / "run")


@pytest.fixture(scope="module")
def pos_tagger(tmp_path_factory: pytest.TempPathFactory) -> TagPredictor:
    folder = tmp_path_factory.mktemp("pos")
    (folder / "a.conllu").write_text(CONLLU * 4, encoding="utf-8")
    made = config(
        folder / "a.conllu", data={"dev": str(folder / "a.conllu")}, training={"max_epochs": 15, "patience": 0}
    )
    return trained(made, folder / "run")


def test_texts_are_tokenized_and_lists_are_not(tagger: TagPredictor) -> None:
    by_text, by_words = tagger.predict(["Anna Smith went to New York", ["Anna", "Smith", "went", "to", "New", "York"]])
    assert by_text.words == by_words.words
    assert by_text == by_words
    assert by_text.tags == ("B-PER", "I-PER", "O", "O", "B-LOC", "I-LOC")
    assert [(s.kind, s.text, s.begin, s.end) for s in by_text.spans] == [
        ("PER", "Anna Smith", 0, 2),
        ("LOC", "New York", 4, 6),
    ]
    assert str(by_text) == "[Anna Smith]PER went to [New York]LOC"
    assert tagger.predict([""])[0].tags == ()
    with pytest.raises(DataError, match="predict must get a list of sentences"):
        tagger.predict("Anna")
    with pytest.raises(DataError, match="a sentence must be a text or a list of words, got int"):
        tagger.predict([3])


def test_confidences_are_the_marginals_of_the_model(tagger: TagPredictor) -> None:
    sentence = Sentence(("Bob", "Smith", "saw", "Paris"))
    (found,) = tagger.predict([sentence], PredictOptions(confidence=True))
    distribution = tagger.scorer.distribution([sentence])
    everything = distribution.n_best(700)[0]
    assert sum(math.exp(p) for _, p in everything) == pytest.approx(1, abs=1e-4)
    assert found.probabilities is not None
    for i, tag in enumerate(found.tags):
        held = sum(math.exp(p) for tags, p in everything if tags[i] == tag)
        assert found.probabilities[i] == pytest.approx(held, abs=1e-4)
    assert all(0 < float(s.probability or 0) <= 1 for s in found.spans)
    assert found.spans[0].text == "Bob Smith"


@pytest.mark.parametrize("structure", ["softmax", "memm", "perceptron", "margin", "semimarkov"])
def test_every_structure_supports_all_options(tmp_path: Path, structure: str) -> None:
    path = write(tmp_path / "a.conll")
    tagger = trained(config(path, {"structure": structure}, training={"max_epochs": 1}), tmp_path / "run")
    (found,) = tagger.predict(["Bob saw New York"], PredictOptions(confidence=True, n_best=2))
    assert found.probabilities is not None
    assert all(0 < p <= 1 for p in found.probabilities)
    assert all(0 < float(span.probability or 0) <= 1 for span in found.spans)
    path.write_text("Bob\tB-LOC\nsaw\t_\n\n", encoding="utf-8")
    (given,) = tagger.predict(["Bob saw"], PredictOptions(confidence=True, constraint=path))
    assert given.tags[0] == "B-LOC"
    assert given.probabilities is not None
    assert given.probabilities[0] == pytest.approx(1, abs=1e-5)


def test_n_best_is_sorted_and_samples_follow_the_seed(tagger: TagPredictor) -> None:
    text = ["Bob saw New York"]
    (found,) = tagger.predict(text, PredictOptions(n_best=4))
    chances = [answer.log_prob for answer in found.answers]
    assert len(found.answers) == 4
    assert chances == sorted(chances, reverse=True)  # type: ignore[type-var]
    assert found.answers[0].tags == found.tags == tagger.predict(text)[0].tags
    assert len({answer.tags for answer in found.answers}) == 4
    one, same, other = (tagger.predict(text, PredictOptions(samples=20, seed=seed))[0] for seed in (1, 1, 2))
    assert one == same
    assert len(one.answers) == 20
    assert {a.tags for a in one.answers} != {a.tags for a in other.answers} or one.answers != other.answers
    (scored,) = tagger.predict(text, PredictOptions(scores=True))
    assert scored.log_prob == pytest.approx(found.log_prob)


def test_given_tags_are_kept_or_rejected(tagger: TagPredictor, tmp_path: Path) -> None:
    items = ["Bob saw Paris", "she went"]
    given = tmp_path / "given.conll"
    given.write_text("Bob\tB-LOC\nsaw\t?\nParis\t_\n\nshe\tB-PER\nwent\tI-PER\n\n", encoding="utf-8")
    found = tagger.predict(items, PredictOptions(constraint=given))
    assert found[0].tags[0] == "B-LOC"
    assert found[1].tags == ("B-PER", "I-PER")
    free = tagger.predict(items)
    assert free[0].tags[0] == "B-PER"
    for text, words in (
        ("Bob\tB-LOC\nsaw\t?\nParis\t_\n\n", "fewer sentences than the input"),
        (
            "Bob\tB-LOC\nsaw\t?\nRome\t_\n\nshe\tO\nwent\tO\n\n",
            r"given.conll:1 must have the words of the input, 'Bob saw Paris', got 'Bob saw Rome'",
        ),
        ("Bob\tB-X\nsaw\t?\nParis\t_\n\nshe\tO\nwent\tO\n\n", r"given.conll:1: the tag 'B-X' of word 1, 'Bob'"),
        ("Bob\t?\nsaw\t?\nParis\tO\n\nshe\tO\nwent\tO\n\nand\tO\nmore\tO\n\n", "given.conll:8: .* more sentences"),
    ):
        given.write_text(text, encoding="utf-8")
        with pytest.raises(DataError, match=words):
            tagger.predict(items, PredictOptions(constraint=given))
    given.write_text("Bob\tO\nsaw\tI-PER\nParis\t_\n\nshe\tO\nwent\tO\n\n", encoding="utf-8")
    with pytest.raises(ImpossibleError, match="The given tags allow no tag sequence"):
        tagger.predict(items, PredictOptions(constraint=given))


def test_unsupported_option_is_rejected(tagger: TagPredictor) -> None:
    with pytest.raises(DataError, match="--alignment is not an option of"):
        tagger.predict(["x"], PredictOptions(alignment=True))


def test_predict_stream_works_in_blocks_and_in_order(tagger: TagPredictor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK_SENTENCES", 3)
    texts = ["Anna went", "she saw Bob in Paris", "", "Paris is old", "Bob", "Anna Smith saw New York", "old"]
    expected = tagger.predict(texts)
    read = 0

    def counted() -> Iterator[str]:
        nonlocal read
        for text in texts:
            read += 1
            yield text

    stream = tagger.predict_stream(counted())
    assert next(stream) == expected[0]
    assert read == 3  # at most one block is read ahead
    assert list(stream) == expected[1:]


def test_sentence_of_five_thousand_words_is_tagged(tagger: TagPredictor) -> None:
    words = ["Anna", "Smith", "saw", "Paris", "and"] * 1000
    (found,) = tagger.predict([words], PredictOptions(confidence=True))
    assert len(found.tags) == 5000
    assert found.probabilities is not None
    assert np.isfinite(found.probabilities).all()


# --- files and formats ------------------------------------------------------------------------------------------------


def test_columns_are_written_with_the_tag_appended(tagger: TagPredictor, tmp_path: Path) -> None:
    path = write(tmp_path / "in.conll", SENTENCES[:2], times=1)
    items = list(tagger.read_inputs(path))
    blocks = [tagger.write(p, item, "conll") for p, item in zip(tagger.predict(items), items, strict=True)]
    out = tmp_path / "out.conll"
    out.write_text("".join(block + "\n" for block in blocks), encoding="utf-8")
    again = list(column_reader.read(out))
    assert [one.column(0) for one in again] == [item.sentence.words for item in items]
    assert [one.column(1) for one in again] == [item.example.column(1) for item in items]
    assert [one.column(2) for one in again] == [p.tags for p in tagger.predict(items)]
    assert blocks[0].splitlines()[0].split("\t")[:2] == ["Anna", "B-PER"]
    path.write_text(path.read_text(encoding="utf-8").replace("\t", " "), encoding="utf-8")
    first = next(iter(tagger.read_inputs(path)))
    assert tagger.write(tagger.predict([first])[0], first, "conll").startswith("Anna B-PER ")
    (sure,) = tagger.predict(items[:1], PredictOptions(confidence=True))
    assert float(tagger.write(sure, items[0], "conll").splitlines()[0].split()[-1]) == pytest.approx(
        sure.probabilities[0],  # type: ignore[index]
        abs=1e-4,
    )
    (several,) = tagger.predict(items[:1], PredictOptions(n_best=2))
    lines = tagger.write(several, items[0], "conll").splitlines()
    assert lines[0] == "# answer = 1"
    assert "# answer = 2" in lines
    (scored,) = tagger.predict(items[:1], PredictOptions(scores=True))
    first, *rest = tagger.write(scored, items[0], "conll").splitlines()
    assert first == f"# log_prob = {scored.log_prob:.6f}"
    assert rest == blocks[0].splitlines(), "nothing else changes"


def test_conllu_stays_conllu_with_the_column_filled_in(pos_tagger: TagPredictor, tmp_path: Path) -> None:
    path = tmp_path / "in.conllu"
    path.write_text(CONLLU.replace("NOUN", "_").replace("VERB", "_"), encoding="utf-8")
    items = list(pos_tagger.read_inputs(path))
    found = pos_tagger.predict(items)
    out = tmp_path / "out.conllu"
    out.write_text("".join(pos_tagger.write(p, i, "conll") + "\n" for p, i in zip(found, items, strict=True)))
    again = list(conllu.read(out))
    assert [[row.upos for row in one.words] for one in again] == [list(p.tags) for p in found]
    assert again[1].multiwords[0].id == "1-2"
    assert again[0].comment("text") == "Dogs ran"
    assert found[0].tags == ("NOUN", "VERB")
    (sure,) = pos_tagger.predict(items[:1], PredictOptions(confidence=True))
    assert "Confidence=" in pos_tagger.write(sure, items[0], "conll")
    assert str(found[0]) == "Dogs/NOUN ran/VERB"


def test_lines_json_and_colors(tagger: TagPredictor) -> None:
    text = "she saw Bob in Paris"
    (found,) = tagger.predict([text], PredictOptions(confidence=True, n_best=2))
    row = json.loads(tagger.write(found, text, "jsonl"))
    assert row["words"] == ["she", "saw", "Bob", "in", "Paris"]
    assert row["tags"] == list(found.tags)
    assert row["spans"][0]["text"] == "Bob"
    assert 0 < row["spans"][0]["probability"] <= 1
    assert len(row["answers"]) == 2
    assert len(row["probabilities"]) == 5
    plain = replace(found, answers=())
    assert tagger.write(plain, text, "tsv").split("\t")[0] == " ".join(found.tags)
    assert tagger.write(plain, text, "text") == f"she saw [Bob]PER in [Paris]LOC\t{found.log_prob:.6f}"
    assert tagger.write(replace(plain, log_prob=None), text, "text") == "she saw [Bob]PER in [Paris]LOC"
    (blank,) = tagger.predict([" "], PredictOptions(scores=True, confidence=True))
    assert json.loads(tagger.write(blank, " ", "jsonl")) == {
        "words": [], "tags": [], "spans": [], "probabilities": [], "log_prob": None
    }  # fmt: skip
    assert tagger.write(blank, " ", "tsv") == "\t\t\t"
    assert tagger.write(blank, " ", "conll") == ""
    blank_is_answered_by_nothing(tagger, "answers", several=True)
    the_network_answers(tagger, [text])
    colored = tagger.write(plain, text, "color")
    assert "\x1b[" in colored
    assert "saw" in colored


def test_every_tag_sequence_has_its_own_confidences(tagger: TagPredictor) -> None:
    text = "she saw Bob in Paris"
    (alone,) = tagger.predict([text], PredictOptions(confidence=True))
    (found,) = tagger.predict([text], PredictOptions(confidence=True, n_best=4))
    first, *others = found.answers
    assert first.probabilities == alone.probabilities
    for answer in others:
        pairs = list(zip(first.tags, answer.tags, first.probabilities, answer.probabilities, strict=True))
        assert any(a != b for a, b, _, _ in pairs)
        assert all((p == q) == (a == b) for a, b, p, q in pairs)
    for format, count in (("conll", 5), ("tsv", 4)):
        lines = [line for line in tagger.write(found, text, format).splitlines() if line and not line.startswith("#")]
        assert len(lines) == (20 if format == "conll" else 4)
        for answer, line in zip(found.answers, lines[:: count if format == "conll" else 1], strict=True):
            shown = line.split("\t")[-1] if format == "conll" else line.split("\t")[1].split(" ")[0]
            assert shown == f"{answer.probabilities[0]:.4f}"


def test_files_of_other_kinds(tagger: TagPredictor, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("Anna saw Paris.\nBob is old.\n", encoding="utf-8")
    assert list(tagger.read_inputs(path)) == ["Anna saw Paris.", "Bob is old."]
    with pytest.raises(FormatError, match="--input-format must be text, columns, conllu or brackets, got 'csv'"):
        list(tagger.read_inputs(path, ReadOptions(format="csv")))
    path.write_text("(S (NP (N Anna)) (VP (V saw) (NP (-NONE- *))))\n(S (N Bob))\n", encoding="utf-8")
    assert list(tagger.read_inputs(path)) == [["Anna", "saw"], ["Bob"]]


def test_standard_input_has_texts_or_one_word_per_line(tagger: TagPredictor, pos_tagger: TagPredictor) -> None:
    assert list(tagger.items_of_lines(iter(["Anna saw", "", "Bob"]))) == ["Anna saw", "", "Bob"]
    lines = ["# a comment", "Anna\tx", "saw\tx", "", "", "Bob\tx"]
    items = list(tagger.items_of_lines(iter(lines)))
    assert [item.sentence.words for item in items] == [("Anna", "saw"), ("Bob",)]
    assert tagger.write(tagger.predict(items)[0], items[0], "conll").splitlines()[0] == "# a comment"
    (first, second) = pos_tagger.items_of_lines(iter(CONLLU.splitlines()))
    assert first.sentence.words == ("Dogs", "ran")
    assert second.sentence.words == ("did", "n't")
    with pytest.raises(FormatError, match="line 2 of standard input must have 2 fields as the lines before it, got 1"):
        list(tagger.items_of_lines(iter(["Anna\tx", "saw"])))


def test_a_file_with_tags_is_scored_and_new_tags_count_as_errors(tagger: TagPredictor, tmp_path: Path) -> None:
    path = write(tmp_path / "test.conll", [*SENTENCES, "Anna/B-NEW saw/O"], times=1)
    report = tagger.evaluate(path)
    assert report.scores["recall"] < 1
    text = "\n".join(report.lines)
    assert "this file: 1 words have a tag that training never showed ('B-NEW' 1); they count as errors" in text
    assert "95 % interval" in text
    assert "NEW" in text
    assert report.signatures["f1"] == "span-f1|spans:conlleval|n=5"
    answers = tagger.answers(path)
    assert float(answers.measure(answers.right, answers.given)) == pytest.approx(report.scores["f1"])
    assert len(answers.right) == 5


def test_tags_without_spans_are_reported_as_unseen(tagger: TagPredictor, tmp_path: Path) -> None:
    path = write(tmp_path / "test.conll", ["Anna/NOUN saw/VERB", "Bob/NOUN is/O"], times=1)
    assert tagger.evaluate(path).lines[1] == (
        "this file: 3 words have a tag that training never showed ('NOUN' 2, 'VERB' 1); they count as errors"
    )


def test_plain_tags_are_scored_by_words(pos_tagger: TagPredictor, tmp_path: Path) -> None:
    path = tmp_path / "test.conllu"
    path.write_text(CONLLU.replace("NOUN", "PROPN"), encoding="utf-8")
    report = pos_tagger.evaluate(path)
    assert set(report.scores) == {"accuracy", "sentence_accuracy"}
    assert "'PROPN' 1" in "\n".join(report.lines)
    assert any("PROPN taken for NOUN" in line for line in report.lines)


def test_picture_and_sketch(tagger: TagPredictor, tmp_path: Path) -> None:
    svg = tagger.picture("Anna saw Paris").save(tmp_path / "a.svg")
    assert "B-PER" in Path(svg).read_text(encoding="utf-8")
    sketch = tagger.sketch("Anna saw Paris").splitlines()
    assert sketch[1].split()[:2] == ["Anna", "B-PER"]
    with pytest.raises(DataError, match="A sentence without words"):
        tagger.sketch("")
    assert "a tagger of kind neural: 5 tags (iob2)" in tagger.describe(3)[0]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("我们 爱 北京\n天安门 很 大\n", {"data": {"segment": True}}),
        ("我们/r 爱/v 北京/ns\n他/r 来/v\n", {"data": {"segment": True, "tag_separator": "/"}}),
    ],
)
def test_text_is_segmented_into_words(tmp_path: Path, text: str, values: dict[str, Any]) -> None:
    path = tmp_path / "a.txt"
    path.write_text(text * 6, encoding="utf-8")
    values = {"data": {**values["data"], "dev": str(path)}}
    tagger = trained(config(path, training={"max_epochs": 12, "patience": 0}, **values), tmp_path / "run")
    first = text.splitlines()[0]
    raw = "".join(word.split("/")[0] for word in first.split())
    assert tagger.write(tagger.predict([raw])[0], raw, "text") == first
    assert tagger.evaluate(path).scores["f1"] == 1.0


def test_lemmas_of_new_words_are_predicted(tmp_path: Path) -> None:
    path = tmp_path / "a.conllu"
    path.write_text(CONLLU * 4, encoding="utf-8")
    made = config(path, data={"label_column": "lemma", "dev": str(path)}, training={"max_epochs": 15, "patience": 0})
    tagger = trained(made, tmp_path / "run")
    (found,) = tagger.predict([["Dogs", "ran"]], PredictOptions(confidence=True))
    assert found.tags == ("dog", "run")
    assert found.probabilities is not None
    assert 0 < found.probabilities[0] <= 1
    assert tagger.evaluate(path).scores["accuracy"] == 1.0
