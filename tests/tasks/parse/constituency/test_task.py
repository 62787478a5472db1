"""Phrase-structure parsers of all kinds: train, evaluate, predict, draw, start from an old model, and errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from catena import config as configs
from catena.data.readers.brackets import parse, read, to_text
from catena.data.reading import ReadCounter
from catena.errors import ConfigError, DataError, FormatError
from catena.tasks.parse.config import ConstrainedParseOptions as Options
from catena.tasks.parse.config import ParseConfig
from catena.tasks.parse.constituency.task import ConstituencyTask
from catena.tasks.runs import load_task, resume_run, train_run
from catena.tasks.spec import get_spec
from catena.tasks.writing import to_json
from catena.training.report import Reporter, SilentReporter
from tests.laws.network_laws import the_network_answers
from tests.tasks.parse.constituency.banks import GENERATOR, evaluated, write_bank

SMALL: dict[str, Any] = {
    "kind": "span",
    "encoder": {"kind": "recurrent", "d": 16, "n_layers": 1},
    "d_span": 16,
    "words": {"embedding": {"d": 16}, "characters": {"kind": "none"}, "dropout": 0.0},
    "dropout": 0.0,
}
TRAINING = {"max_epochs": 12, "learning_rate": 0.02}
TEXTS = ["the man sees a dog in the park", "a cat likes the old man"]


class Notes(SilentReporter):
    """Keeps the lines about a run."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def started(self, start: Any) -> None:
        self.lines += start.summary

    def note(self, words: str) -> None:
        self.lines.append(words)


def config(folder: Path, model: dict[str, Any], **sections: Any) -> ParseConfig:
    values: dict[str, Any] = {
        "model": model,
        "data": {"train": [str(folder / "train.mrg")], "test": str(folder / "test.mrg")},
        "machine": {"device": "cpu", "threads": 1},
        "batches": {"batch_size": 60},
        "training": TRAINING if model["kind"] == "span" else {},
        **sections,
    }
    return configs.parse(ParseConfig, values)


def train(made: ParseConfig, folder: Path, reporter: Reporter | None = None) -> ConstituencyTask[Any]:
    train_run(made, folder, reporter or SilentReporter())
    task = load_task(folder, "cpu")
    assert isinstance(task, ConstituencyTask)
    return task


def json_row(prediction: Any) -> dict[str, Any]:
    row: dict[str, Any] = json.loads(to_json(prediction.to_dict()))
    return row


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a treebank, a test set, a grammar and texts."""
    path = tmp_path_factory.mktemp("parse")
    write_bank(path / "train.mrg", 60)
    write_bank(path / "test.mrg", 10, seed=5)
    (path / "rules.cfg").write_text(GENERATOR)
    return path


@pytest.fixture(scope="module")
def counted(folder: Path) -> ConstituencyTask[Any]:
    return train(config(folder, {"kind": "pcfg", "rare": 0}), folder / "pcfg")


@pytest.fixture(scope="module")
def scored(folder: Path) -> ConstituencyTask[Any]:
    return train(config(folder, SMALL), folder / "span")


@pytest.fixture(scope="module")
def written(folder: Path) -> ConstituencyTask[Any]:
    data = {"train": [str(folder / "rules.cfg")], "dev": str(folder / "test.mrg")}
    return train(config(folder, {"kind": "grammar"}, data=data), folder / "grammar")


KINDS = pytest.mark.parametrize("kind", ["counted", "scored", "written"])


# --- predictions ------------------------------------------------------------------------------------------------------


@KINDS
def test_predicted_trees_are_written_and_evaluated(kind: str, folder: Path, request: pytest.FixtureRequest) -> None:
    task: ConstituencyTask[Any] = request.getfixturevalue(kind)
    lines = [one.to_text("brackets") for one in task.predict(TEXTS)]
    (folder / f"{kind}.mrg").write_text("\n".join(lines) + "\n")
    assert [" ".join(tree.words()) for tree in read(folder / f"{kind}.mrg")] == TEXTS
    report = evaluated(task, folder / "test.mrg")
    assert report.scores()["f1"] > {"counted": 0.8, "scored": 0.75, "written": 0.8}[kind]
    assert report.signatures()["f1"] == "f1|rules:evalb-collins|n=10"
    assert any(line.startswith("f1 ") and "95 % interval" in line for line in report.lines())
    assert any(line.startswith("NP ") for line in report.details())
    assert task.describe(3)[0].startswith("a ")
    assert task.metric == "f1"
    assert not task.find_metric("crossing").higher_is_better
    pairs = report.paired("f1")
    assert float(pairs.metric(pairs.references, pairs.predictions)) == pytest.approx(report.scores()["f1"])


@KINDS
def test_all_options_of_prediction(kind: str, folder: Path, request: pytest.FixtureRequest) -> None:
    task: ConstituencyTask[Any] = request.getfixturevalue(kind)
    best = task.predict(TEXTS, Options(n_best=2, scores=True))
    lines = [line for one in best for line in one.to_text("brackets").splitlines()]
    assert len(lines) == (4 if kind == "scored" else 3)  # the second text has one parse in these grammars
    assert all(float(line.split("\t")[0]) <= 0 for line in lines)
    assert [row["tree"] for row in best[0].to_rows()] == [str(one) for one in best[0].n_best]
    row = json_row(task.predict(TEXTS, Options(samples=3, confidence=True, seed=4))[0])
    assert len(row["n_best"]) == 3
    assert {"label", "start", "end", "probability"} == set(row["brackets"][0])
    assert row["brackets"][0]["start"] == 0
    assert len(row["confidence"]) == len(row["words"]) == 8
    assert "┌" in task.predict(TEXTS, Options(confidence=True))[0].to_text("tree")
    (folder / "given.txt").write_text("4-8:NP\n_\n")
    fixed = task.predict(TEXTS, Options(constraint=folder / "given.txt"))
    assert "(NP (NP (D a) (N dog)) (PP" in str(fixed[0]) or kind == "scored"
    example = task.to_example("a dog sees the cat")
    assert "dog" in task.draw_text(example, Options())
    assert "<svg" in task.draw(example, Options(confidence=True)).svg


def test_items_may_be_trees_words_or_texts(counted: ConstituencyTask[Any], folder: Path) -> None:
    tree = next(iter(read(folder / "test.mrg")))
    parsed = counted.predict([tree, list(tree.words()), " ".join(tree.words())])
    assert len({str(one) for one in parsed}) == 1
    assert str(parsed[0]) == to_text(parsed[0].tree)
    (folder / "words.conll").write_text("a\tD\ndog\tN\nsees\tV\n\n")
    data = counted.config.data.model_copy(update={"input_format": "columns"})
    columns = counted.config.model_copy(update={"data": data})
    (sentence,) = counted.read(columns, folder / "words.conll", ReadCounter(), gold=False)
    assert sentence.words == ("a", "dog", "sees")
    (traces,) = counted.predict([parse("(S (NP-SBJ (D a) (N dog)) (VP (V sees) (NP (-NONE- *))))")])
    assert traces.words == ("a", "dog", "sees")
    (first, *_) = counted.read(counted.config, folder / "test.mrg", ReadCounter(), gold=False)
    assert first.words == tree.words()


def test_counts_of_parses_and_empty_lines(written: ConstituencyTask[Any]) -> None:
    ambiguous, nothing, empty = written.predict([TEXTS[0], "man the sees", ""])
    assert (ambiguous.n_parses, nothing.n_parses) == (2, 0)
    assert nothing.note == "the grammar has every word, but no parse of them in this order"
    assert empty.note == "the sentence has no words"
    row = json_row(nothing)
    assert (row["n_parses"], row["tree"]) == (0, "(NOPARSE (N man) (D the) (V sees))")
    assert "log_prob" not in row
    assert nothing.to_text("tree").splitlines()[-2:] == ["parses: 0", f"note: {nothing.note}"]
    for options in (Options(scores=True), Options(n_best=2)):
        (empty,) = written.predict([""], options)
        assert json_row(empty)["log_prob"] is None
        assert json_row(empty)["tree"] is None
        assert empty.to_text("brackets") == ""
    (nothing,) = written.predict(["man the sees"], Options(scores=True))
    assert json_row(nothing)["log_prob"] is None
    assert nothing.to_text("brackets").startswith("\t(NOPARSE "), "an empty score column"


def test_brackets_in_a_text_are_escaped(scored: ConstituencyTask[Any]) -> None:
    the_network_answers(scored, ["a dog likes the man"])
    (found,) = scored.predict(["a dog ( old )"])
    assert found.words == ("a", "dog", "-LRB-", "old", "-RRB-")
    assert found.tree.words() == found.words


def test_a_long_sentence_is_parsed_by_spans(scored: ConstituencyTask[Any]) -> None:
    (found,) = scored.predict([["dog"] * 300], Options(confidence=True))
    assert len(found.tree.words()) == 300


def test_mistakes_are_shown(written: ConstituencyTask[Any], folder: Path) -> None:
    (folder / "wrong.mrg").write_text("(S (NP (D the) (N man)) (XP (V sees)))\n(S (NP (D a) (N cat)) (VP (V sees)))\n")
    report: Any = evaluated(written, folder / "wrong.mrg")
    assert report.show() == ["the man sees  →  ✗ no VP over 'sees', XP over 'sees'", "a cat sees  →  ✓"]


# --- runs -------------------------------------------------------------------------------------------------------------


def test_training_from_an_old_model_drops_trees_with_new_labels(scored: ConstituencyTask[Any], folder: Path) -> None:
    (folder / "more.mrg").write_text((folder / "train.mrg").read_text() + "(S (NEW (D a) (N dog)))\n" * 2)
    data = {"train": [str(folder / "more.mrg")], "dev": str(folder / "test.mrg")}
    made = config(folder, SMALL, data=data, training={"max_epochs": 1})
    train_run(made, folder / "again", SilentReporter(), init_from=folder / "span")
    listed = (folder / "again" / "dropped.tsv").read_text()
    assert listed.count("with a label or tag that the old model does not know") == 2


def test_margin_loss_trains(folder: Path) -> None:
    task = train(config(folder, {**SMALL, "loss": "margin"}), folder / "margin")
    assert evaluated(task, folder / "test.mrg").scores()["f1"] > 0.7


def test_counted_grammar_includes_dev_and_is_made_again_by_resume(folder: Path) -> None:
    reporter = Notes()
    made = config(folder, {"kind": "pcfg", "rare": 0})
    task: Any = train(made, folder / "refit", reporter)
    assert "counted again with the dev trees, which the scores on dev do not include" in reporter.lines
    everything = {to_text(tree) for tree in read(folder / "train.mrg")}
    leaves = {rule.right[0] for rule in task.grammar.rules if isinstance(rule.right[0], str)}
    assert leaves == {word for text in everything for word in parse(text).words()}
    result = resume_run(folder / "refit", SilentReporter())
    assert load_task(folder / "refit").grammar == task.grammar
    assert set(result.test_scores) == set(result.scores)
    with_dev = config(folder, {"kind": "pcfg"}, data={**made.data.model_dump(), "dev": str(folder / "test.mrg")})
    reporter = Notes()
    train(with_dev, folder / "kept", reporter)
    assert not any("counted again" in line for line in reporter.lines)


def test_rules_are_not_counted_as_trees(folder: Path) -> None:
    reporter = Notes()
    data = {"train": [str(folder / "rules.cfg")]}
    task = train(config(folder, {"kind": "grammar"}, data=data), folder / "bare", reporter)
    assert reporter.lines[0] == "train: rules.cfg holds rules"
    assert not any(line.startswith(("read 0", "dev:")) for line in reporter.lines)
    gaps = task.predict(["the man sees a dog", "", "the man sees a unicorn", "man the"])
    assert [one.to_text("brackets") == "" for one in gaps] == [False, True, False, False]
    assert (gaps[2].note or "").startswith("the grammar does not have the word 'unicorn'")


def test_unseen_phrase_labels_are_reported(tmp_path: Path) -> None:
    (tmp_path / "train.mrg").write_text("(S (NP (D a) (N cat)) (VP (V sleeps)))\n" * 3, encoding="utf-8")
    (tmp_path / "test.mrg").write_text("(S (NP (D a) (N cat)) (XP (V sleeps)))\n", encoding="utf-8")
    reporter = Notes()
    train(config(tmp_path, {"kind": "pcfg"}), tmp_path / "run", reporter)
    line = "dev and test: 1 phrases have a label that training never showed ('XP' 1); they count as errors"
    assert line in reporter.lines


def test_unusable_trees_are_dropped_and_listed(folder: Path) -> None:
    path = folder / "gaps.mrg"
    long = "(S " + "(N a) " * 30 + ")\n"
    path.write_text("(S (NP (-NONE- *)))\n" + (folder / "train.mrg").read_text() + "(X word)\n" + long)
    data = {"train": [str(path)], "dev": str(folder / "test.mrg"), "max_length": 20}
    train(config(folder, {"kind": "pcfg"}, data=data), folder / "gaps")
    listed = (folder / "gaps" / "dropped.tsv").read_text()
    for reason in ("without a word", "with only a word", "longer than max_length=20"):
        assert listed.count(reason) == 1


# --- errors -----------------------------------------------------------------------------------------------------------


def test_invalid_files_are_rejected(folder: Path) -> None:
    bad = folder / "bad.mrg"
    made = config(folder, {"kind": "pcfg"}, data={"train": [str(bad)]})
    bad.write_text("(S (N a) (V b))\n" + "(S (N a) (V b)\n(S (N c) (V d))\n" * 2)
    with pytest.raises(FormatError, match=r"2 of 5 records of .*bad\.mrg:2 opens a tree that is not closed"):
        train(made, folder / "x")
    bad.write_text("(S (NP (-NONE- *)))\n(S (N a) (V b))\n")
    with pytest.raises(DataError, match="1 example cannot be split into train and dev"):
        train(made, folder / "x")
    bad.write_text("just some words\nand more\n")
    with pytest.raises(FormatError, match=r"must be Penn brackets for this parser, got 'text'.*use --model grammar"):
        train(made, folder / "x")
    bad.write_text("")
    with pytest.raises(FormatError, match=r"bad\.mrg is empty"):
        train(made, folder / "x")
    with pytest.raises(DataError, match="There is nothing to train on"):
        train(config(folder, {"kind": "pcfg"}, data={}), folder / "x")


def test_invalid_constraints_are_rejected(counted: ConstituencyTask[Any], folder: Path) -> None:
    given = folder / "wrong.txt"
    given.write_text("1-2\n")
    with pytest.raises(DataError, match="must have a constraint for each sentence, got only 1"):
        counted.predict(TEXTS, Options(constraint=given))
    given.write_text("1-2\n_\n_\n")
    with pytest.raises(DataError, match="must have a constraint for each of the 2 sentences, got more"):
        counted.predict(TEXTS, Options(constraint=given))
    given.write_text("1-20\n_\n")
    with pytest.raises(DataError, match="brackets must end at word 8 or before, got 1-20"):
        counted.predict(TEXTS, Options(constraint=given))


@pytest.mark.parametrize("kind", ["pcfg", "seq2seq"])
def test_only_networks_over_words_start_from_a_language_model(folder: Path, kind: str) -> None:
    made = config(folder, {"kind": kind})
    family: Any = get_spec("parse").family(made)
    with pytest.raises(ConfigError, match=f"pretrained needs model.kind = 'span' or 'biaffine', got '{kind}'"):
        family.adopt(made, None)
