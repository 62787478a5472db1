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

from catena import config as configs
from catena.data.readers import columns as column_reader
from catena.data.readers import conllu
from catena.data.reading import ReadCounter
from catena.errors import ConfigError, DataError, FormatError, ImpossibleError
from catena.tasks import base
from catena.tasks.base import EvaluationResult
from catena.tasks.tag.base import TagTask
from catena.tasks.tag.config import TagOptions
from catena.tasks.tag.data import TaggedSentence
from catena.tasks.tag.predict import TagPrediction
from catena.tasks.word_inputs.sentences import Sentence
from catena.tasks.writing import PredictionWriter
from tests.laws.network_laws import the_network_answers
from tests.tasks.tag.helpers import SENTENCES, config, trained, write
from tests.tasks.tag.test_data import CONLLU


@pytest.fixture(scope="module")
def tagger(tmp_path_factory: pytest.TempPathFactory) -> TagTask:
    folder = tmp_path_factory.mktemp("tagger")
    path = write(folder / "train.conll")
    made = config(path, data={"dev": str(path)}, training={"max_epochs": 12, "patience": 0})
    return trained(made, folder / "run")


@pytest.fixture(scope="module")
def pos_tagger(tmp_path_factory: pytest.TempPathFactory) -> TagTask:
    folder = tmp_path_factory.mktemp("pos")
    (folder / "a.conllu").write_text(CONLLU * 4, encoding="utf-8")
    made = config(
        folder / "a.conllu", data={"dev": str(folder / "a.conllu")}, training={"max_epochs": 15, "patience": 0}
    )
    return trained(made, folder / "run")


def read(tagger: TagTask, path: Path) -> list[TaggedSentence]:
    """The sentences of a file to predict."""
    return list(tagger.read_inputs(path, ReadCounter()))


def evaluate(tagger: TagTask, path: Path) -> EvaluationResult:
    return tagger.evaluate(tagger.read(tagger.config, path, ReadCounter()))


def lines(prediction: TagPrediction, format: str) -> list[str]:
    """The prediction as it is written in a format."""
    return list(PredictionWriter(format).lines(prediction))


def test_texts_are_tokenized_and_lists_are_not(tagger: TagTask) -> None:
    by_text, by_words = tagger.predict(["Anna Smith went to New York", ["Anna", "Smith", "went", "to", "New", "York"]])
    assert by_text.words == by_words.words
    assert (by_text.text, by_words.text) == ("Anna Smith went to New York", None)
    assert by_text.tags == ("B-PER", "I-PER", "O", "O", "B-LOC", "I-LOC")
    assert by_text.spans is not None
    assert [(s.label, s.text, s.start, s.end, s.start_char, s.end_char) for s in by_text.spans] == [
        ("PER", "Anna Smith", 0, 2, 0, 10),
        ("LOC", "New York", 4, 6, 19, 27),
    ]
    assert by_words.spans is not None
    assert by_words.spans[0].to_dict() == {"start": 0, "end": 2, "label": "PER", "text": "Anna Smith"}
    assert str(by_text) == "[Anna Smith]PER went to [New York]LOC"
    assert tagger.predict([""])[0].tags == ()
    with pytest.raises(DataError, match="predict must get a list, got one text"):
        tagger.predict("Anna")
    with pytest.raises(DataError, match="a sentence must be a text or a list of words, got int"):
        tagger.predict([3])


def test_confidences_are_the_marginals_of_the_model(tagger: TagTask) -> None:
    sentence = Sentence(("Bob", "Smith", "saw", "Paris"))
    (found,) = tagger.predict([sentence], TagOptions(confidence=True))
    distribution = tagger.distribution([tagger.to_example(sentence)])
    everything = distribution.n_best(700)[0]
    assert sum(math.exp(p) for _, p in everything) == pytest.approx(1, abs=1e-4)
    assert found.confidence is not None
    for i, tag in enumerate(found.tags):
        held = sum(math.exp(p) for tags, p in everything if tags[i] == tag)
        assert found.confidence[i] == pytest.approx(held, abs=1e-4)
    assert all(0 < float(s.probability or 0) <= 1 for s in found.spans or ())
    assert found.spans
    assert found.spans[0].text == "Bob Smith"


@pytest.mark.parametrize("structure", ["softmax", "memm", "perceptron", "margin", "semimarkov"])
def test_every_structure_supports_all_options(tmp_path: Path, structure: str) -> None:
    path = write(tmp_path / "a.conll")
    tagger = trained(config(path, {"structure": structure}, training={"max_epochs": 1}), tmp_path / "run")
    (found,) = tagger.predict(["Bob saw New York"], TagOptions(confidence=True, n_best=2))
    assert found.confidence is not None
    assert all(0 < p <= 1 for p in found.confidence)
    assert all(0 < float(span.probability or 0) <= 1 for span in found.spans or ())
    path.write_text("Bob\tB-LOC\nsaw\t_\n\n", encoding="utf-8")
    (given,) = tagger.predict(["Bob saw"], TagOptions(confidence=True, constraint=path))
    assert given.tags[0] == "B-LOC"
    assert given.confidence is not None
    assert given.confidence[0] == pytest.approx(1, abs=1e-5)


def test_n_best_is_sorted_and_samples_follow_the_seed(tagger: TagTask) -> None:
    text = ["Bob saw New York"]
    (found,) = tagger.predict(text, TagOptions(n_best=4))
    log_probs = [one.log_prob for one in found.n_best]
    assert len(found.n_best) == 4
    assert log_probs == sorted(log_probs, reverse=True)  # type: ignore[type-var]
    assert found.n_best[0].tags == found.tags == tagger.predict(text)[0].tags
    assert len({one.tags for one in found.n_best}) == 4
    one, same, other = (tagger.predict(text, TagOptions(samples=20, seed=seed))[0] for seed in (1, 1, 2))
    assert one == same
    assert len(one.n_best) == 20
    assert {a.tags for a in one.n_best} != {a.tags for a in other.n_best} or one.n_best != other.n_best
    (scored,) = tagger.predict(text, TagOptions(scores=True))
    assert scored.log_prob == pytest.approx(found.log_prob)


def test_given_tags_are_kept_or_rejected(tagger: TagTask, tmp_path: Path) -> None:
    items = ["Bob saw Paris", "she went"]
    given = tmp_path / "given.conll"
    given.write_text("Bob\tB-LOC\nsaw\t?\nParis\t_\n\nshe\tB-PER\nwent\tI-PER\n\n", encoding="utf-8")
    found = tagger.predict(items, TagOptions(constraint=given))
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
            tagger.predict(items, TagOptions(constraint=given))
    given.write_text("Bob\tO\nsaw\tI-PER\nParis\t_\n\nshe\tO\nwent\tO\n\n", encoding="utf-8")
    with pytest.raises(ImpossibleError, match="The given tags allow no tag sequence"):
        tagger.predict(items, TagOptions(constraint=given))


def test_invalid_options_are_rejected() -> None:
    with pytest.raises(ConfigError, match="n_best and samples cannot be combined"):
        configs.parse(TagOptions, {"n_best": 2, "samples": 2})
    with pytest.raises(ConfigError, match="alignment is not a known key"):
        configs.parse(TagOptions, {"alignment": True})


def test_predict_stream_works_in_blocks_and_in_order(tagger: TagTask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base.BaseTask, "stream_block", 3)
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


def test_sentence_of_five_thousand_words_is_tagged(tagger: TagTask) -> None:
    words = ["Anna", "Smith", "saw", "Paris", "and"] * 1000
    (found,) = tagger.predict([words], TagOptions(confidence=True))
    assert len(found.tags) == 5000
    assert found.confidence is not None
    assert np.isfinite(found.confidence).all()


# --- files and formats ------------------------------------------------------------------------------------------------


def test_columns_are_written_with_the_tag_appended(tagger: TagTask, tmp_path: Path) -> None:
    path = write(tmp_path / "in.conll", SENTENCES[:2], times=1)
    items = read(tagger, path)
    found = tagger.predict(items)
    blocks = [one.to_text("conll") for one in found]
    out = tmp_path / "out.conll"
    out.write_text("".join(block + "\n" for block in blocks), encoding="utf-8")
    again = list(column_reader.read(out))
    assert [one.column(0) for one in again] == [item.sentence.words for item in items]
    assert [one.column(1) for one in again] == [item.example.column(1) for item in items]  # type: ignore[union-attr]
    assert [one.column(2) for one in again] == [p.tags for p in found]
    assert blocks[0].splitlines()[0].split("\t")[:2] == ["Anna", "B-PER"]
    path.write_text(path.read_text(encoding="utf-8").replace("\t", " "), encoding="utf-8")
    assert tagger.predict(read(tagger, path)[:1])[0].to_text("conll").startswith("Anna B-PER ")
    (sure,) = tagger.predict(items[:1], TagOptions(confidence=True))
    assert sure.confidence is not None
    assert float(sure.to_text("conll").splitlines()[0].split()[-1]) == pytest.approx(sure.confidence[0], abs=1e-4)
    (several,) = tagger.predict(items[:1], TagOptions(n_best=2))
    written = several.to_text("conll").splitlines()
    assert written[0] == "# n_best = 1"
    assert "# n_best = 2" in written
    (scored,) = tagger.predict(items[:1], TagOptions(scores=True))
    first, *rest = scored.to_text("conll").splitlines()
    assert first == f"# log_prob = {scored.log_prob:.6f}"
    assert rest == blocks[0].splitlines(), "nothing else changes"


def test_conllu_stays_conllu_with_the_column_filled_in(pos_tagger: TagTask, tmp_path: Path) -> None:
    path = tmp_path / "in.conllu"
    path.write_text(CONLLU.replace("NOUN", "_").replace("VERB", "_"), encoding="utf-8")
    items = read(pos_tagger, path)
    found = pos_tagger.predict(items)
    out = tmp_path / "out.conllu"
    out.write_text("".join(one.to_text("conll") + "\n" for one in found))
    again = list(conllu.read(out))
    assert [[row.upos for row in one.words] for one in again] == [list(p.tags) for p in found]
    assert again[1].multiwords[0].id == "1-2"
    assert again[0].comment("text") == "Dogs ran"
    assert found[0].tags == ("NOUN", "VERB")
    (sure,) = pos_tagger.predict(items[:1], TagOptions(confidence=True))
    assert "Confidence=" in sure.to_text("conll")
    assert str(found[0]) == "Dogs/NOUN ran/VERB"


def test_lines_json_and_colors(tagger: TagTask) -> None:
    text = "she saw Bob in Paris"
    (found,) = tagger.predict([text], TagOptions(confidence=True, n_best=2))
    row = json.loads(lines(found, "jsonl")[0])
    assert (row["text"], row["words"]) == (text, ["she", "saw", "Bob", "in", "Paris"])
    assert row["tags"] == list(found.tags)
    assert row["spans"][0]["text"] == "Bob"
    assert 0 < row["spans"][0]["probability"] <= 1
    assert [set(one) for one in row["n_best"]] == [{"tags", "spans", "confidence", "log_prob"}] * 2
    assert len(row["confidence"]) == 5
    plain = replace(found, n_best=())
    assert lines(plain, "tsv")[0].split("\t")[0] == " ".join(found.tags)
    assert lines(plain, "text") == [f"she saw [Bob]PER in [Paris]LOC\t{found.log_prob:.6f}"]
    assert lines(replace(plain, log_prob=None), "text") == ["she saw [Bob]PER in [Paris]LOC"]
    colored = plain.to_text("color")
    assert "\x1b[" in colored
    assert "saw" in colored


@pytest.mark.parametrize("options", [{"scores": True}, {"n_best": 2}, {"samples": 2}])
def test_a_blank_text_has_an_empty_prediction_without_a_score(tagger: TagTask, options: dict[str, Any]) -> None:
    blank, full = tagger.predict([" ", "Bob"], TagOptions(confidence=True, **options))
    row = json.loads(lines(blank, "jsonl")[0])
    only = {"tags": [], "spans": [], "confidence": [], "log_prob": None}
    ranked = {} if options == {"scores": True} else {"n_best": [only]}
    assert row == {"text": " ", "words": [], **only, **ranked}
    assert lines(blank, "tsv") == ["\t\t\t"]
    assert len(lines(full, "tsv")[0].split("\t")) == 4, "with the same columns"
    assert str(blank) == blank.to_text("conll") == ""
    assert not blank.to_text("text").strip()


def test_the_network_of_a_tagger_predicts(tagger: TagTask) -> None:
    the_network_answers(tagger, ["she saw Bob in Paris"])


def test_every_tag_sequence_has_its_own_confidences(tagger: TagTask) -> None:
    text = "she saw Bob in Paris"
    (alone,) = tagger.predict([text], TagOptions(confidence=True))
    (found,) = tagger.predict([text], TagOptions(confidence=True, n_best=4))
    first, *others = found.n_best
    assert first.confidence is not None
    assert first.confidence == alone.confidence
    for one in others:
        assert one.confidence is not None
        pairs = list(zip(first.tags, one.tags, first.confidence, one.confidence, strict=True))
        assert any(a != b for a, b, _, _ in pairs)
        assert all((p == q) == (a == b) for a, b, p, q in pairs)
    blocks = [line for line in found.to_text("conll").splitlines() if line and not line.startswith("#")]
    assert [line.split("\t")[-1] for line in blocks[::5]] == [f"{one.confidence[0]:.4f}" for one in found.n_best]  # type: ignore[index]
    rows = [line.split("\t")[1].split(" ")[0] for line in lines(found, "tsv")]
    assert rows == [f"{one.confidence[0]:.4f}" for one in found.n_best]  # type: ignore[index]


def test_files_of_other_kinds(tagger: TagTask, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("Anna saw Paris.\n\nBob is old.\n", encoding="utf-8")
    found = read(tagger, path)
    assert [one.sentence.words for one in found] == [
        ("Anna", "saw", "Paris", "."),
        (),
        ("Bob", "is", "old", "."),
    ]
    data = tagger.config.data.model_copy(update={"input_format": "csv"})
    other = tagger.config.model_copy(update={"data": data})
    with pytest.raises(FormatError, match="--input-format must be text, columns, conllu or brackets, got 'csv'"):
        list(tagger.read(other, path, ReadCounter(), gold=False))
    path.write_text("(S (NP (N Anna)) (VP (V saw) (NP (-NONE- *))))\n(S (N Bob))\n", encoding="utf-8")
    assert [one.sentence.words for one in read(tagger, path)] == [("Anna", "saw"), ("Bob",)]


def test_comments_of_column_files_are_kept(tagger: TagTask, tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    path.write_text("# a comment\nAnna\tx\nsaw\tx\n\n\nBob\tx\n", encoding="utf-8")
    items = read(tagger, path)
    assert [item.sentence.words for item in items] == [("Anna", "saw"), ("Bob",)]
    assert tagger.predict(items)[0].to_text("conll").splitlines()[0] == "# a comment"


def test_a_file_with_tags_is_scored_and_new_tags_count_as_errors(tagger: TagTask, tmp_path: Path) -> None:
    path = write(tmp_path / "test.conll", [*SENTENCES, "Anna/B-NEW saw/O"], times=1)
    report = evaluate(tagger, path)
    assert report.scores()["recall"] < 1
    text = "\n".join(report.lines())
    assert "this file: 1 words have a tag that training never showed ('B-NEW' 1); they count as errors" in text
    assert "95 % interval" in text
    assert "NEW" in text
    assert report.signatures()["f1"] == "span-f1|spans:conlleval|n=5"
    paired = report.paired("f1")
    assert float(paired.metric(paired.references, paired.predictions)) == pytest.approx(report.scores()["f1"])
    assert len(paired.references) == 5


def test_tags_without_spans_are_reported_as_unseen(tagger: TagTask, tmp_path: Path) -> None:
    path = write(tmp_path / "test.conll", ["Anna/NOUN saw/VERB", "Bob/NOUN is/O"], times=1)
    assert evaluate(tagger, path).notes()[0] == (
        "this file: 3 words have a tag that training never showed ('NOUN' 2, 'VERB' 1); they count as errors"
    )


def test_plain_tags_are_scored_by_words(pos_tagger: TagTask, tmp_path: Path) -> None:
    path = tmp_path / "test.conllu"
    path.write_text(CONLLU.replace("NOUN", "PROPN"), encoding="utf-8")
    report = evaluate(pos_tagger, path)
    assert set(report.scores()) == {"accuracy", "sentence_accuracy"}
    assert "'PROPN' 1" in "\n".join(report.lines())
    assert any("PROPN taken for NOUN" in line for line in report.lines())


def test_picture_as_image_and_as_text(tagger: TagTask, tmp_path: Path) -> None:
    example, options = tagger.to_example("Anna saw Paris"), TagOptions()
    svg = tagger.draw(example, options).save(tmp_path / "a.svg")
    assert "B-PER" in Path(svg).read_text(encoding="utf-8")
    rows = tagger.draw_text(example, options).splitlines()
    assert rows[1].split()[:2] == ["Anna", "B-PER"]
    with pytest.raises(DataError, match="A sentence without words"):
        tagger.draw_text(tagger.to_example(""), options)
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
    assert tagger.predict([raw])[0].to_text("text") == first
    assert evaluate(tagger, path).scores()["f1"] == 1.0


def test_lemmas_of_new_words_are_predicted(tmp_path: Path) -> None:
    path = tmp_path / "a.conllu"
    path.write_text(CONLLU * 4, encoding="utf-8")
    made = config(path, data={"tags_column": "lemma", "dev": str(path)}, training={"max_epochs": 15, "patience": 0})
    tagger = trained(made, tmp_path / "run")
    (found,) = tagger.predict([["Dogs", "ran"]], TagOptions(confidence=True))
    assert found.tags == ("dog", "run")
    assert found.confidence is not None
    assert 0 < found.confidence[0] <= 1
    assert evaluate(tagger, path).scores()["accuracy"] == 1.0
