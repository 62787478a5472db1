"""Prediction with a trained parser: CoNLL-U is kept, all options, constraints, text, long sentences."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from catena.data.examples import ConlluSentence
from catena.data.readers.conllu import read, to_text, write
from catena.errors import DataError, FormatError
from catena.tasks.application import PredictOptions, ReadOptions
from catena.tasks.parse.application import ParseApplication
from catena.tasks.parse.dependency.predictor import DependencyPredictor
from catena.tasks.parse.dependency.writing import to_conllu
from catena.training.report import SilentReporter
from tests.laws.network_laws import the_network_answers
from tests.tasks.parse.dependency.helpers import config, conllu, generated

FULL = """\
# sent_id = 7
# text = We see catsdogs
1\tWe\twe\tPRON\tPRP\tCase=Nom\t_\t_\t2:nsubj\tSpaceAfter=Yes
2\tsee\tsee\tVERB\tVBP\t_\t_\t_\t0:root\t_
3-4\tcatsdogs\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No
3\tcats\tcat\tNOUN\tNNS\tNumber=Plur\t_\t_\t_\t_
3.1\tseen\tsee\tVERB\t_\t_\t_\t_\t2:conj\tCopyOf=2
4\tdogs\tdog\tNOUN\tNNS\tNumber=Plur\t_\t_\t_\t_

"""


@pytest.fixture(scope="module")
def predictor(tmp_path_factory: pytest.TempPathFactory) -> DependencyPredictor:
    folder = tmp_path_factory.mktemp("parser")
    training = {"max_steps": 120, "eval_every": 120, "patience": 0, "learning_rate": 0.01, "schedule": "constant"}
    made = config(folder, generated(60, 1), training=training, batches={"batch_size": 60, "batch_by": "tokens"})
    ParseApplication().train(made, folder / "run", SilentReporter())
    found = ParseApplication().load(folder / "run", "cpu")
    assert isinstance(found, DependencyPredictor)
    return found


def test_all_columns_multiwords_empty_nodes_and_comments_are_kept(
    predictor: DependencyPredictor, tmp_path: Path
) -> None:
    path = tmp_path / "full.conllu"
    path.write_text(FULL, encoding="utf-8")
    (item,) = predictor.read_inputs(path)
    (prediction,) = predictor.predict([item])
    the_network_answers(predictor, [item])
    written = predictor.write(prediction, item, "conllu") + "\n"
    again = tmp_path / "again.conllu"
    again.write_text(written, encoding="utf-8")
    (parsed,) = read(again)
    rows = [row._replace(head="_", deprel="_") for row in parsed.rows]
    assert to_text(replace(parsed, rows=tuple(rows))) == FULL
    assert [word.head for word in parsed.words] == [str(head) for head in prediction.heads]
    assert prediction.words == ("We", "see", "cats", "dogs")


def test_trees_of_the_input_are_ignored(predictor: DependencyPredictor) -> None:
    right, wrong = conllu("we see cats", "2 0 2"), conllu("we see cats", "0 1 1")
    assert predictor.predict([right])[0].heads == predictor.predict([wrong])[0].heads == (2, 0, 2)


def test_text_and_lists_of_words_are_parsed_too(predictor: DependencyPredictor, tmp_path: Path) -> None:
    text, words, sentence = predictor.predict(["we see cats", ["we", "see", "cats"], conllu("we see cats", "_ _ _")])
    assert text.heads == words.heads == sentence.heads == (2, 0, 2)
    assert text.relations == ("subject", "root", "object")
    assert to_conllu(text).startswith("# text = we see cats\n1\twe\t_\t_\t_\t_\t2\tsubject\t_\t_\n")
    path = tmp_path / "texts.txt"
    path.write_text("we see cats\nwe hear birds\n", encoding="utf-8")
    assert list(predictor.read_inputs(path)) == ["we see cats", "we hear birds"]
    path.write_text("we\tO\nsee\tO\n\nAnna\tB-PER\nsees\tO\n\n", encoding="utf-8")
    assert list(predictor.read_inputs(path)) == [["we", "see"], ["Anna", "sees"]]
    path.write_text("(S (NP we) (VP (V see) (NP (-NONE- *))))\n", encoding="utf-8")
    assert list(predictor.read_inputs(path)) == [["we", "see"]]


def test_standard_input_is_text_or_conllu(predictor: DependencyPredictor) -> None:
    assert list(predictor.items_of_lines(iter(["we see", "we hear"]))) == ["we see", "we hear"]
    (item,) = predictor.items_of_lines(iter(FULL.splitlines()))
    assert isinstance(item, ConlluSentence)
    assert item.comment("sent_id") == "7"
    assert list(predictor.items_of_lines(iter([]))) == []
    with pytest.raises(FormatError, match="the first line of standard input has 2 tab-separated fields"):
        predictor.items_of_lines(iter(["we\tO", "see\tO"]))
    with pytest.raises(FormatError, match="standard input:1"):
        list(predictor.items_of_lines(iter(["# a comment", ""])))


def test_a_text_without_words_has_an_empty_parse(predictor: DependencyPredictor) -> None:
    empty, full = predictor.predict(["", "we see"], PredictOptions(confidence=True))
    assert (empty.heads, empty.words) == ((), ())
    assert predictor.write(empty, "", "conllu") == ""
    for items in ([""], ["", "we see"]):
        found = predictor.predict(items, PredictOptions(scores=True))[0]
        row = {"words": [], "heads": [], "relations": [], "probability": None, "log_probability": None}
        assert json.loads(predictor.write(found, "", "jsonl")) == row
        drawn = predictor.predict(items, PredictOptions(samples=2))[0]
        assert "samples" in json.loads(predictor.write(drawn, "", "jsonl"))
    assert "probability" not in json.loads(predictor.write(predictor.predict([""])[0], "", "jsonl"))
    assert full.heads == (2, 0)
    assert predictor.predict([""], PredictOptions(n_best=2))[0].heads == ()
    with pytest.raises(DataError, match="no tree to draw"):
        predictor.picture("")


def test_invalid_items_and_options_are_rejected(predictor: DependencyPredictor) -> None:
    with pytest.raises(DataError, match="Put it in a list"):
        predictor.predict("we see")
    with pytest.raises(DataError, match="item must be a text, a list of words or a CoNLL-U sentence, got int"):
        predictor.predict([3])
    with pytest.raises(DataError, match="--alignment is not an option of"):
        predictor.predict(["we see"], PredictOptions(alignment=True))


def test_best_parses_are_written_with_probability_and_confidence(predictor: DependencyPredictor) -> None:
    (found,) = predictor.predict(["we see cats"], PredictOptions(n_best=3, confidence=True))
    assert len(found.parses) == 3
    probabilities = [math.exp(parse.log_prob or 0.0) for parse in found.parses]
    assert probabilities == sorted(probabilities, reverse=True)
    assert 0 < sum(probabilities) <= 1 + 1e-6
    assert found.probability == probabilities[0]
    blocks = to_conllu(found).rstrip("\n").split("\n\n")
    assert len(blocks) == 3
    assert "# parse = 2" in blocks[1]
    assert f"# probability = {probabilities[1]:.6g}" in blocks[1]
    assert blocks[0].splitlines()[-1].endswith(f"Confidence={found.parses[0].confidence[2]:.4f}")
    row = json.loads(predictor.write(found, "we see cats", "jsonl"))
    assert [parse["heads"] for parse in row["parses"]] == [list(parse.heads) for parse in found.parses]
    one = json.loads(predictor.write(predictor.predict(["we see cats"])[0], "we see cats", "jsonl"))
    assert one == {"words": ["we", "see", "cats"], "heads": [2, 0, 2], "relations": ["subject", "root", "object"]}


def test_samples_follow_the_seed(predictor: DependencyPredictor, monkeypatch: pytest.MonkeyPatch) -> None:
    first, again, other = (
        predictor.predict(["cats x birds we y cats that"], PredictOptions(samples=40, seed=seed))[0]
        for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other
    assert "# sample = 40" in to_conllu(first)
    monkeypatch.setattr("catena.tasks.parse.predictor.BLOCK", 1)
    one, two = predictor.predict(["cats x birds we y cats that"] * 2, PredictOptions(samples=40))
    assert one != two, "each block has its own samples"
    assert all(sum(head == 0 for head in parse.heads) == 1 for parse in first.parses)


def test_pictures_in_svg_and_for_a_terminal(predictor: DependencyPredictor) -> None:
    svg = predictor.picture("we see cats", PredictOptions(confidence=True)).svg
    assert "subject" in svg
    assert "cats" in svg
    sketch = predictor.sketch("we see cats")
    assert "subject" in sketch.splitlines()[0] + sketch.splitlines()[1]
    assert sketch.splitlines()[-1].split() == ["we", "see", "cats"]
    written = predictor.write(predictor.predict(["we see"], PredictOptions(n_best=2))[0], "we see", "text")
    assert "parse 2   probability" in written


# --- constraints ------------------------------------------------------------------------------------------------------


def constrained(predictor: DependencyPredictor, folder: Path, *rules: ConlluSentence) -> list[tuple[int, ...]]:
    path = folder / "rules.conllu"
    write(path, rules)
    items = [" ".join(word.form for word in rule.words) for rule in rules]
    return [found.heads for found in predictor.predict(items, PredictOptions(constraint=path))]


def test_fixed_and_forbidden_arcs_and_relations_are_kept(predictor: DependencyPredictor, tmp_path: Path) -> None:
    free = conllu("we see cats", "_ _ _", "_ _ _")
    fixed = conllu("we see cats", "_ _ 1", "_ _ _")
    misc = free.rows[1]._replace(misc="X=1|NotHead=0,3")
    forbidden = replace(free, rows=(free.rows[0], misc, free.rows[2]))
    heads = constrained(predictor, tmp_path, free, fixed, forbidden)
    assert heads[0] == (2, 0, 2)
    assert heads[1][2] == 1
    assert heads[2][1] == 1
    named = conllu("we see cats", "_ _ _", "_ _ subject")
    none = free.rows[0]._replace(misc="NotDeprel=subject,root")
    path = tmp_path / "relations.conllu"
    write(path, [named, replace(free, rows=(none, *free.rows[1:]))])
    one, two = predictor.predict(["we see cats"] * 2, PredictOptions(constraint=path))
    assert one.relations[2] == "subject"
    assert two.relations[0] not in ("subject", "root")


def test_impossible_constraints_are_reported_with_their_line(predictor: DependencyPredictor, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"rules\.conllu:1: this constraint allows no tree"):
        constrained(predictor, tmp_path, conllu("we see", "2 1", "_ _"))
    with pytest.raises(DataError, match=r"rules\.conllu:2: 'subjct' is not one of"):
        constrained(predictor, tmp_path, conllu("we see", "_ _", "_ subjct"))
    wrong = conllu("we see", "_ _", "_ _")
    bad = replace(wrong, rows=(wrong.rows[0]._replace(misc="NotHead=9"), wrong.rows[1]))
    with pytest.raises(DataError, match=r"rules\.conllu:1: NotHead must list words from 0 \(the root\) to 2"):
        constrained(predictor, tmp_path, bad)
    path = tmp_path / "rules.conllu"
    write(path, [wrong])
    with pytest.raises(DataError, match="with word 2 'hear', got 'see'"):
        predictor.predict(["we hear"], PredictOptions(constraint=path))
    with pytest.raises(DataError, match="must have a constraint for each sentence, got only 1"):
        predictor.predict(["we see", "we see"], PredictOptions(constraint=path))
    with pytest.raises(DataError, match="must have a constraint for each of the 0 sentences, got more"):
        predictor.predict([], PredictOptions(constraint=path))


# --- evaluation -------------------------------------------------------------------------------------------------------


def test_evaluation_report_has_intervals_and_each_relation(predictor: DependencyPredictor, tmp_path: Path) -> None:
    path = tmp_path / "gold.conllu"
    sentences = generated(20, 5)
    write(path, sentences)
    report = predictor.evaluate(path)
    words = sum(len(s.words) for s in sentences)
    predicted = predictor.predict(sentences)
    right = sum(
        word.head == str(head)
        for s, p in zip(sentences, predicted, strict=True)
        for word, head in zip(s.words, p.heads, strict=True)
    )
    assert report.scores["uas"] == pytest.approx(right / words)
    assert report.signatures["las"] == "las|conll2018|n=20"
    assert any(line.startswith("las ") and "95 % interval" in line for line in report.lines)
    assert any(line.startswith("object ") for line in report.lines)
    assert "nonprojective_recall: no word is non-projective" in report.lines
    answers = predictor.answers(path, "uas")
    assert float(answers.measure(answers.right, answers.given)) == pytest.approx(right / words)
    assert predictor.answers(path).measure.name == "las|conll2018"
    with pytest.raises(DataError, match=r"'lass' is not a metric for comparing parsers.*'las'"):
        predictor.answers(path, "lass")


def test_unseen_relation_counts_as_an_error(predictor: DependencyPredictor, tmp_path: Path) -> None:
    path = tmp_path / "gold.conllu"
    write(path, [conllu("we see cats", "2 0 2", "subject root unheard")])
    scores = predictor.evaluate(path).scores
    assert (scores["uas"], scores["las"]) == (1.0, pytest.approx(2 / 3))


def test_incomplete_gold_trees_are_rejected(predictor: DependencyPredictor, tmp_path: Path) -> None:
    path = tmp_path / "gold.conllu"
    write(path, [conllu("we see", "2 _")])
    with pytest.raises(FormatError, match=r"gold\.conllu:2: word 2 \('see'\) has no head"):
        predictor.evaluate(path)
    path.write_text("", encoding="utf-8")
    with pytest.raises(DataError, match="has no sentence to score"):
        predictor.evaluate(path, ReadOptions(format="conllu"))


def test_predict_stream_works_block_by_block(predictor: DependencyPredictor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("catena.tasks.parse.predictor.BLOCK", 3)
    taken = []

    def items() -> object:
        for sentence in generated(10, 3):
            taken.append(sentence)
            yield sentence

    stream = predictor.predict_stream(items())  # type: ignore[arg-type]
    first = next(stream)
    assert len(taken) == 3
    assert [first.heads, *(p.heads for p in stream)] == [p.heads for p in predictor.predict(generated(10, 3))]


def test_a_sentence_of_five_thousand_words_is_parsed(predictor: DependencyPredictor) -> None:
    words = ["we", "see", *["cats", "dogs"] * 2499]
    (found,) = predictor.predict([words])
    assert len(found.heads) == 5000
    assert found.heads.count(0) == 1


def test_describe_names_the_model(predictor: DependencyPredictor) -> None:
    first, second = predictor.describe(2)
    assert first.startswith("a biaffine dependency parser: nonprojective trees, trained by matrix_tree")
    assert second.startswith("relations: object ")
