"""Prediction with a trained parser: CoNLL-U is kept, all options, constraints, text, long sentences."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from catena.config import parse
from catena.data.examples import ConlluSentence
from catena.data.readers.conllu import read, to_text, write
from catena.data.reading import ReadCounter
from catena.errors import ConfigError, DataError, FormatError
from catena.tasks.parse.config import ConstrainedParseOptions
from catena.tasks.parse.data import DependencyExample
from catena.tasks.parse.dependency.task import DependencyTask
from catena.tasks.parse.predict import DependencyEvaluation, DependencyPrediction
from catena.tasks.runs import train_run
from catena.tasks.writing import to_json
from catena.training.report import SilentReporter
from tests.laws.network_laws import the_network_answers
from tests.tasks.parse.dependency.helpers import config, conllu, generated, load

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
def task(tmp_path_factory: pytest.TempPathFactory) -> DependencyTask:
    folder = tmp_path_factory.mktemp("parser")
    training = {"max_steps": 120, "eval_every": 120, "patience": 0, "learning_rate": 0.01, "schedule": "constant"}
    made = config(folder, generated(60, 1), training=training, batches={"batch_size": 60, "batch_by": "tokens"})
    train_run(made, folder / "run", SilentReporter())
    return load(folder / "run")


def inputs(task: DependencyTask, path: Path) -> list[DependencyExample]:
    return list(task.read(task.config, path, ReadCounter(), gold=False))


def evaluated(task: DependencyTask, path: Path) -> DependencyEvaluation:
    report = task.evaluate(task.read(task.config, path, ReadCounter()))
    assert isinstance(report, DependencyEvaluation)
    return report


def json_row(prediction: DependencyPrediction) -> dict[str, Any]:
    row: dict[str, Any] = json.loads(to_json(prediction.to_dict()))
    return row


def test_all_columns_multiwords_empty_nodes_and_comments_are_kept(task: DependencyTask, tmp_path: Path) -> None:
    path = tmp_path / "full.conllu"
    path.write_text(FULL, encoding="utf-8")
    (item,) = inputs(task, path)
    (prediction,) = task.predict([item])
    the_network_answers(task, [item])
    written = prediction.to_text("conllu") + "\n"
    again = tmp_path / "again.conllu"
    again.write_text(written, encoding="utf-8")
    (parsed,) = read(again)
    rows = [row._replace(head="_", deprel="_") for row in parsed.rows]
    assert to_text(replace(parsed, rows=tuple(rows))) == FULL
    assert [word.head for word in parsed.words] == [str(head) for head in prediction.heads]
    assert prediction.words == ("We", "see", "cats", "dogs")


def test_trees_of_the_input_are_ignored(task: DependencyTask) -> None:
    right, wrong = conllu("we see cats", "2 0 2"), conllu("we see cats", "0 1 1")
    assert task.predict([right])[0].heads == task.predict([wrong])[0].heads == (2, 0, 2)


def test_text_and_lists_of_words_are_parsed_too(task: DependencyTask, tmp_path: Path) -> None:
    text, words, sentence = task.predict(["we see cats", ["we", "see", "cats"], conllu("we see cats", "_ _ _")])
    assert text.heads == words.heads == sentence.heads == (2, 0, 2)
    assert text.relations == ("subject", "root", "object")
    assert text.to_text("conllu").startswith("# text = we see cats\n1\twe\t_\t_\t_\t_\t2\tsubject\t_\t_\n")
    path = tmp_path / "texts.txt"
    path.write_text("we see cats\nwe hear birds\n", encoding="utf-8")
    assert [one.text for one in inputs(task, path)] == ["we see cats", "we hear birds"]
    path.write_text("we\tO\nsee\tO\n\nAnna\tB-PER\nsees\tO\n\n", encoding="utf-8")
    assert [one.words for one in inputs(task, path)] == [("we", "see"), ("Anna", "sees")]
    path.write_text("(S (NP we) (VP (V see) (NP (-NONE- *))))\n", encoding="utf-8")
    assert [one.words for one in inputs(task, path)] == [("we", "see")]
    chosen = task.config.data.model_copy(update={"input_format": "tsv"})
    with pytest.raises(FormatError, match="--input-format must be text, columns, conllu, brackets, got 'tsv'"):
        next(task.read(task.config.model_copy(update={"data": chosen}), path, ReadCounter(), gold=False))


def test_a_text_without_words_has_an_empty_parse(task: DependencyTask) -> None:
    empty, full = task.predict(["", "we see"], ConstrainedParseOptions(confidence=True))
    assert (empty.heads, empty.words) == ((), ())
    assert empty.to_text("conllu") == ""
    for items in ([""], ["", "we see"]):
        row = {"text": "", "words": [], "heads": [], "relations": [], "probability": None, "log_prob": None}
        assert json_row(task.predict(items, ConstrainedParseOptions(scores=True))[0]) == row
        sampled = json_row(task.predict(items, ConstrainedParseOptions(samples=2))[0])
        assert sampled["n_best"] == [{key: row[key] for key in row if key not in ("text", "words")}]
    assert "probability" not in json_row(task.predict([""])[0])
    assert full.heads == (2, 0)
    assert full.log_prob is None
    assert task.predict([""], ConstrainedParseOptions(n_best=2))[0].heads == ()
    with pytest.raises(DataError, match="no tree to draw"):
        task.draw(task.to_example(""), ConstrainedParseOptions())


def test_invalid_items_and_options_are_rejected(task: DependencyTask) -> None:
    with pytest.raises(DataError, match="Put it in a list"):
        task.predict("we see")
    with pytest.raises(DataError, match=r"a sentence must be a text, .* or a tree, got int"):
        task.predict([3])
    with pytest.raises(ConfigError, match="n_best and samples cannot be combined"):
        parse(ConstrainedParseOptions, {"n_best": 2, "samples": 2})


def test_best_parses_are_written_with_probability_and_confidence(task: DependencyTask) -> None:
    (found,) = task.predict(["we see cats"], ConstrainedParseOptions(n_best=3, confidence=True))
    assert len(found.n_best) == 3
    probabilities = [math.exp(one.log_prob or 0.0) for one in found.n_best]
    assert probabilities == sorted(probabilities, reverse=True)
    assert 0 < sum(probabilities) <= 1 + 1e-6
    assert found.probability == probabilities[0]
    blocks = found.to_text("conllu").rstrip("\n").split("\n\n")
    assert len(blocks) == 3
    assert "# n_best = 2" in blocks[1]
    assert f"# probability = {probabilities[1]:.6g}" in blocks[1]
    assert blocks[0].splitlines()[-1].endswith(f"Confidence={(found.confidence or ())[2]:.4f}")
    row = json_row(found)
    assert [one["heads"] for one in row["n_best"]] == [list(one.heads) for one in found.n_best]
    assert [one["heads"] for one in found.to_rows()] == [" ".join(map(str, one.heads)) for one in found.n_best]
    (best,) = task.predict(["we see cats"])
    tree = {"heads": [2, 0, 2], "relations": ["subject", "root", "object"]}
    assert json_row(best) == {"text": "we see cats", "words": ["we", "see", "cats"], **tree}
    assert str(best) == "we/2/subject see/0/root cats/2/object"


def test_samples_follow_the_seed(task: DependencyTask, monkeypatch: pytest.MonkeyPatch) -> None:
    first, again, other = (
        task.predict(["cats x birds we y cats that"], ConstrainedParseOptions(samples=40, seed=seed))[0]
        for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other
    assert "# n_best = 40" in first.to_text("conllu")
    monkeypatch.setattr(DependencyTask, "stream_block", 1)
    one, two = task.predict(["cats x birds we y cats that"] * 2, ConstrainedParseOptions(samples=40))
    assert one != two, "each block has its own samples"
    assert all(sum(head == 0 for head in one.heads) == 1 for one in first.n_best)


def test_pictures_in_svg_and_for_a_terminal(task: DependencyTask) -> None:
    example = task.to_example("we see cats")
    svg = task.draw(example, ConstrainedParseOptions(confidence=True)).svg
    assert "subject" in svg
    assert "cats" in svg
    sketch = task.draw_text(example, ConstrainedParseOptions())
    assert "subject" in sketch.splitlines()[0] + sketch.splitlines()[1]
    assert sketch.splitlines()[-1].split() == ["we", "see", "cats"]
    (two,) = task.predict(["we see"], ConstrainedParseOptions(n_best=2))
    assert "tree 2   log_prob" in two.to_text("tree")


# --- constraints ------------------------------------------------------------------------------------------------------


def constrained(task: DependencyTask, folder: Path, *rules: ConlluSentence) -> list[tuple[int, ...]]:
    path = folder / "rules.conllu"
    write(path, rules)
    items = [" ".join(word.form for word in rule.words) for rule in rules]
    return [found.heads for found in task.predict(items, ConstrainedParseOptions(constraint=path))]


def test_fixed_and_forbidden_arcs_and_relations_are_kept(task: DependencyTask, tmp_path: Path) -> None:
    free = conllu("we see cats", "_ _ _", "_ _ _")
    fixed = conllu("we see cats", "_ _ 1", "_ _ _")
    misc = free.rows[1]._replace(misc="X=1|NotHead=0,3")
    forbidden = replace(free, rows=(free.rows[0], misc, free.rows[2]))
    heads = constrained(task, tmp_path, free, fixed, forbidden)
    assert heads[0] == (2, 0, 2)
    assert heads[1][2] == 1
    assert heads[2][1] == 1
    named = conllu("we see cats", "_ _ _", "_ _ subject")
    none = free.rows[0]._replace(misc="NotDeprel=subject,root")
    path = tmp_path / "relations.conllu"
    write(path, [named, replace(free, rows=(none, *free.rows[1:]))])
    one, two = task.predict(["we see cats"] * 2, ConstrainedParseOptions(constraint=path))
    assert one.relations[2] == "subject"
    assert two.relations[0] not in ("subject", "root")


def test_impossible_constraints_are_reported_with_their_line(task: DependencyTask, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"rules\.conllu:1: this constraint allows no tree"):
        constrained(task, tmp_path, conllu("we see", "2 1", "_ _"))
    with pytest.raises(DataError, match=r"rules\.conllu:2: 'subjct' is not one of"):
        constrained(task, tmp_path, conllu("we see", "_ _", "_ subjct"))
    wrong = conllu("we see", "_ _", "_ _")
    bad = replace(wrong, rows=(wrong.rows[0]._replace(misc="NotHead=9"), wrong.rows[1]))
    with pytest.raises(DataError, match=r"rules\.conllu:1: NotHead must list words from 0 \(the root\) to 2"):
        constrained(task, tmp_path, bad)
    path = tmp_path / "rules.conllu"
    write(path, [wrong])
    with pytest.raises(DataError, match="with word 2 'hear', got 'see'"):
        task.predict(["we hear"], ConstrainedParseOptions(constraint=path))
    with pytest.raises(DataError, match="must have a constraint for each sentence, got only 1"):
        task.predict(["we see", "we see"], ConstrainedParseOptions(constraint=path))
    with pytest.raises(DataError, match="must have a constraint for each of the 0 sentences, got more"):
        task.predict([], ConstrainedParseOptions(constraint=path))


# --- evaluation -------------------------------------------------------------------------------------------------------


def test_evaluation_report_has_intervals_and_each_relation(task: DependencyTask, tmp_path: Path) -> None:
    path = tmp_path / "gold.conllu"
    sentences = generated(20, 5)
    write(path, sentences)
    report = evaluated(task, path)
    words = sum(len(s.words) for s in sentences)
    predicted = task.predict(sentences)
    right = sum(
        word.head == str(head)
        for s, p in zip(sentences, predicted, strict=True)
        for word, head in zip(s.words, p.heads, strict=True)
    )
    assert report.scores()["uas"] == pytest.approx(right / words)
    assert report.signatures()["las"] == "las|conll2018|n=20"
    assert any(line.startswith("las ") and "95 % interval" in line for line in report.lines())
    assert any(line.startswith("object ") for line in report.lines())
    assert "nonprojective_recall" not in report.scores(), "no word is non-projective"
    pairs = report.paired("uas")
    assert float(pairs.metric(pairs.references, pairs.predictions)) == pytest.approx(right / words)
    assert task.metric == "las"
    with pytest.raises(ConfigError, match=r"metric must be one of las, .*, got 'lass'"):
        task.find_metric("lass")


def test_mistakes_and_wrong_relations_are_shown(task: DependencyTask, tmp_path: Path) -> None:
    path = tmp_path / "gold.conllu"
    write(
        path, [conllu("we see cats", "2 0 2", "object root object"), conllu("we see cats", "2 0 1", "subject root x")]
    )
    report = evaluated(task, path)
    assert report.show() == [
        "we see cats  →  ✗ we ← see (subject)",
        "we see cats  →  ✗ cats ← see (object)",
    ]
    lines = report.lines()
    assert lines[lines.index("the most frequent wrong relations with a correct head:") + 1].split() == [
        *("1", "object", "taken", "for", "subject")
    ]
    classes = report.to_dict()["classes"]
    assert classes["object"] == {"precision": 0.5, "recall": 0.5, "f1": 0.5, "found": 2, "gold": 2}


def test_unseen_relation_counts_as_an_error(task: DependencyTask, tmp_path: Path) -> None:
    path = tmp_path / "gold.conllu"
    write(path, [conllu("we see cats", "2 0 2", "subject root unheard")])
    report = evaluated(task, path)
    assert (report.scores()["uas"], report.scores()["las"]) == (1.0, pytest.approx(2 / 3))
    assert report.notes() == [
        "this file: 1 words have a relation that training never showed ('unheard' 1); they count as errors"
    ]


def test_incomplete_gold_trees_are_rejected(task: DependencyTask, tmp_path: Path) -> None:
    path = tmp_path / "gold.conllu"
    write(path, [conllu("we see", "2 _")])
    with pytest.raises(FormatError, match=r"gold\.conllu:2: word 2 \('see'\) has no head"):
        evaluated(task, path)
    with pytest.raises(DataError, match="There is no example to score"):
        task.evaluate([])


def test_predict_stream_works_block_by_block(task: DependencyTask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DependencyTask, "stream_block", 3)
    taken = []

    def items() -> object:
        for sentence in generated(10, 3):
            taken.append(sentence)
            yield sentence

    stream = task.predict_stream(items())  # type: ignore[arg-type]
    first = next(stream)
    assert len(taken) == 3
    assert [first.heads, *(p.heads for p in stream)] == [p.heads for p in task.predict(generated(10, 3))]


def test_a_sentence_of_five_thousand_words_is_parsed(task: DependencyTask) -> None:
    words = ["we", "see", *["cats", "dogs"] * 2499]
    (found,) = task.predict([words])
    assert len(found.heads) == 5000
    assert found.heads.count(0) == 1


def test_describe_names_the_model(task: DependencyTask) -> None:
    first, second = task.describe(2)
    assert first.startswith("a biaffine dependency parser: nonprojective trees, trained by matrix_tree")
    assert second.startswith("relations: object ")
