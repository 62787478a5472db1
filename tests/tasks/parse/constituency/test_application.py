"""Phrase-structure parsers from the command line: train, evaluate, predict, draw, resume, and errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from catena.cli.main import main
from catena.data.readers.brackets import read, to_text
from catena.tasks.application import PredictOptions, ReadOptions
from catena.tasks.load import load
from catena.tasks.parse.constituency.predictor import ConstituencyPredictor
from tests.laws.network_laws import the_network_answers
from tests.tasks.parse.constituency.banks import GENERATOR, write_bank

SMALL = [
    *("--model.encoder.d", "16", "--d-span", "16", "--model.encoder.n-layers", "1", "--model.words.embedding.d", "16"),
    *("--model.words.characters.kind", "none", "--threads", "1", "--batch-size", "60", "--model.dropout", "0"),
    *("--model.words.dropout", "0", "--model.encoder.dropout", "0", "--max-epochs", "12", "--learning-rate", "0.02"),
]


def run(*words: str) -> int:
    return main(list(words))


def lines_of(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a treebank, a test set, a grammar and texts."""
    path = tmp_path_factory.mktemp("parse")
    write_bank(path / "train.mrg", 60)
    write_bank(path / "test.mrg", 10, seed=5)
    (path / "rules.cfg").write_text(GENERATOR)
    (path / "texts.txt").write_text("the man sees a dog in the park\na cat likes the old man\n")
    return path


@pytest.fixture(scope="module")
def counted(folder: Path) -> Path:
    out = folder / "pcfg"
    train = ["train", "parse", str(folder / "train.mrg"), "--model", "pcfg", "--test", str(folder / "test.mrg")]
    assert run(*train, "-o", str(out), "-q", "--rare", "0") == 0
    return out


@pytest.fixture(scope="module")
def scored(folder: Path) -> Path:
    out = folder / "span"
    train = ["train", "parse", str(folder / "train.mrg"), "--model", "span", "--test", str(folder / "test.mrg")]
    assert run(*train, *SMALL, "-o", str(out), "-q") == 0
    return out


@pytest.fixture(scope="module")
def written(folder: Path) -> Path:
    out = folder / "grammar"
    train = ["train", "parse", str(folder / "rules.cfg"), "--model", "grammar", "--dev", str(folder / "test.mrg")]
    assert run(*train, "-o", str(out), "-q") == 0
    return out


# --- the best -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["counted", "scored", "written"])
def test_predict_write_and_evaluate(
    kind: str, folder: Path, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    model = request.getfixturevalue(kind)
    capsys.readouterr()
    assert run("predict", str(model), str(folder / "texts.txt")) == 0
    printed = lines_of(capsys)
    (folder / f"{kind}.mrg").write_text("\n".join(printed) + "\n")
    trees = list(read(folder / f"{kind}.mrg"))
    assert [" ".join(tree.words()) for tree in trees] == (folder / "texts.txt").read_text().splitlines()
    assert run("evaluate", str(model), str(folder / "test.mrg")) == 0
    out = capsys.readouterr().out
    assert "labeled brackets: F1" in out
    predictor = load(model, "cpu")
    assert isinstance(predictor, ConstituencyPredictor)
    report = predictor.evaluate(folder / "test.mrg")
    assert report.scores["f1"] > {"counted": 0.8, "scored": 0.75, "written": 0.8}[kind]
    assert report.signatures["f1"] == "f1|rules:evalb-collins|n=10"
    assert predictor.describe(3)[0].startswith("a ")
    own = predictor.answers(folder / "test.mrg")
    assert float(own.measure(own.right, own.given)) == pytest.approx(report.scores["f1"])


@pytest.mark.parametrize("kind", ["counted", "scored", "written"])
def test_predict_options(
    kind: str, folder: Path, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    model = request.getfixturevalue(kind)
    capsys.readouterr()
    texts = str(folder / "texts.txt")
    assert run("predict", str(model), texts, "--n-best", "2", "--scores") == 0
    printed = lines_of(capsys)
    assert len(printed) == 3 if kind != "scored" else 4  # the second text has one parse in these grammars
    assert all(float(line.split("\t")[0]) <= 0 for line in printed)
    assert run("predict", str(model), texts, "--format", "jsonl", "--confidence", "--samples", "3", "--seed", "4") == 0
    row = json.loads(lines_of(capsys)[0])
    assert len(row["trees"]) == 3
    assert {"label", "first", "last", "probability"} == set(row["brackets"][0])
    assert len(row["tags"]) == len(row["words"]) == 8
    assert run("predict", str(model), texts, "--format", "tree", "--confidence") == 0
    assert "┌" in capsys.readouterr().out
    (folder / "given.txt").write_text("4-8:NP\n_\n")
    assert run("predict", str(model), texts, "--constraint", str(folder / "given.txt")) == 0
    assert "(NP (NP (D a) (N dog)) (PP" in lines_of(capsys)[0] or kind == "scored"
    assert run("draw", str(model), "a dog sees the cat") == 0
    assert "dog" in capsys.readouterr().out
    assert run("draw", str(model), "a dog sees the cat", "-o", str(folder / f"{kind}.svg"), "--confidence") == 0
    assert "<svg" in (folder / f"{kind}.svg").read_text()


def test_items_may_be_trees_words_or_texts(counted: Path, folder: Path) -> None:
    model = load(counted, "cpu")
    trees = list(model.read_inputs(folder / "test.mrg"))
    parsed = model.predict([trees[0], list(trees[0].words()), " ".join(trees[0].words())])
    assert len({to_text(one.tree) for one in parsed}) == 1
    (folder / "words.conll").write_text("a\tD\ndog\tN\nsees\tV\n\n")
    (sentence,) = model.read_inputs(folder / "words.conll", ReadOptions(format="columns"))
    assert model.predict([sentence])[0].words == ("a", "dog", "sees")
    assert str(parsed[0]) == to_text(parsed[0].tree)


def test_standard_input_may_hold_texts_or_trees(counted: Path) -> None:
    model = load(counted, "cpu")
    assert list(model.items_of_lines(iter(["a dog (old) sees", "the cat"]))) == ["a dog (old) sees", "the cat"]
    assert list(model.items_of_lines(iter([]))) == []
    for lines in (["(S (NP (D a)", "(N dog)))"], ["( (S (N dog)))"], ["(N dog)"]):
        (tree,) = model.items_of_lines(iter(lines))
        assert tree.words()[-1] == "dog"
    assert list(model.items_of_lines(iter(["(old) dog sees"]))) == ["(old) dog sees"]


def test_counts_of_parses_and_empty_lines(written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = load(written, "cpu")
    ambiguous, nothing, empty = model.predict(["the man sees a dog in the park", "man the sees", ""])
    assert (ambiguous.parses, nothing.parses) == (2, 0)
    assert nothing.note == "the grammar has every word, but no parse of them in this order"
    assert empty.note == "the sentence has no words"
    row = json.loads(model.write(nothing, "man the sees", "jsonl"))
    assert (row["parses"], row["tree"]) == (0, "(NOPARSE (N man) (D the) (V sees))")
    assert "note: " in model.write(nothing, "man the sees", "tree")
    for options in (PredictOptions(scores=True), PredictOptions(n_best=2)):
        (empty,) = model.predict([""], options)
        assert json.loads(model.write(empty, "", "jsonl"))["log_probability"] is None
        assert model.write(empty, "", "brackets") == ""
    (nothing,) = model.predict(["man the sees"], PredictOptions(scores=True))
    assert json.loads(model.write(nothing, "man the sees", "jsonl"))["log_probability"] is None
    assert model.write(nothing, "man the sees", "brackets").startswith("\t(NOPARSE "), "an empty score column"
    assert "log_probability" not in row


def test_brackets_in_a_text_are_escaped(scored: Path) -> None:
    model = load(scored, "cpu")
    the_network_answers(model, ["a dog likes the man"])
    found = model.predict(["a dog ( old )"])[0]
    assert found.words == ("a", "dog", "-LRB-", "old", "-RRB-")
    assert found.tree.words() == found.words


def test_a_long_sentence_is_parsed_by_spans(scored: Path) -> None:
    found = load(scored, "cpu").predict([["dog"] * 300], PredictOptions(confidence=True))[0]
    assert len(found.tree.words()) == 300


def test_training_from_an_old_model(scored: Path, folder: Path) -> None:
    out = folder / "again"
    train = ["train", "parse", str(folder / "train.mrg"), "--from", str(scored), "--max-epochs", "1", "-o", str(out)]
    assert run(*train, "-q") == 0
    assert (out / "config.toml").exists()


def test_margin_loss_trains(folder: Path) -> None:
    out = folder / "margin"
    train = ["train", "parse", str(folder / "train.mrg"), "--model", "span", "--loss", "margin"]
    assert run(*train, *SMALL, "-o", str(out), "-q") == 0
    assert load(out, "cpu").evaluate(folder / "test.mrg").scores["f1"] > 0.7


# --- errors -----------------------------------------------------------------------------------------------------------


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert run(*words) != 0
    return capsys.readouterr().err.replace("\n", " ")


def test_invalid_files_are_rejected(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = folder / "bad.mrg"
    bad.write_text("(S (N a) (V b))\n(S (N a) (V b)\n(S (N c) (V d))\n")
    error = refused(capsys, "train", "parse", str(bad), "--model", "pcfg", "-o", str(folder / "x"))
    assert "bad.mrg:2" in error
    assert "1 bracket is missing" in error
    bad.write_text("(S (NP (-NONE- *)))\n(S (N a) (V b))\n")
    error = refused(capsys, "train", "parse", str(bad), "--model", "pcfg", "-o", str(folder / "x"))
    assert "1 tree cannot be split into train and dev" in error
    (folder / "plain.txt").write_text("just some words\nand more\n")
    error = refused(capsys, "train", "parse", str(folder / "plain.txt"), "--model", "span", "-o", str(folder / "x"))
    assert "this parser is trained on trees in brackets" in error
    assert "For the rules of a grammar, use --model grammar" in error
    error = refused(capsys, "train", str(folder / "train.mrg"), "--model", "joint", "-o", str(folder / "x"))
    assert "'joint' is a model of transduce, not of parse, the task detected from the file" in error
    (folder / "empty.mrg").write_text("")
    error = refused(capsys, "train", "parse", str(folder / "empty.mrg"), "--model", "span", "-o", str(folder / "x"))
    assert "empty.mrg is empty" in error
    assert "there is nothing to train on" in refused(
        capsys, "train", "parse", "--model", "pcfg", "-o", str(folder / "x")
    )


def test_trees_without_words_are_dropped_and_listed(folder: Path) -> None:
    path = folder / "gaps.mrg"
    path.write_text("(S (NP (-NONE- *)))\n" + (folder / "train.mrg").read_text() + "(X word)\n")
    assert run("train", "parse", str(path), "--model", "pcfg", "-o", str(folder / "gaps"), "-q") == 0
    listed = (folder / "gaps" / "dropped.tsv").read_text()
    assert "without a word" in listed
    assert "with only a word" in listed


def test_invalid_constraints_are_rejected(counted: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = folder / "wrong.txt"
    texts = str(folder / "texts.txt")
    given.write_text("1-2\n")
    error = refused(capsys, "predict", str(counted), texts, "--constraint", str(given))
    assert "must have a constraint for each sentence, got only 1" in error
    given.write_text("1-20\n_\n")
    error = refused(capsys, "predict", str(counted), texts, "--constraint", str(given))
    assert "brackets must end at word 8 or before, got 1-20" in error


def test_damaged_model_is_rejected(counted: Path, tmp_path: Path) -> None:
    from catena.errors import CheckpointError
    from catena.tasks.parse.constituency.config import PCFGParserConfig
    from catena.tasks.parse.constituency.treebank_pcfg import SYMBOLS, PcfgParser

    model = load(counted, "cpu")
    model.parser.save(tmp_path)
    (tmp_path / SYMBOLS).write_text("{")
    with pytest.raises(CheckpointError, match=r"symbols\.json cannot be read"):
        PcfgParser.load(PCFGParserConfig(), tmp_path)


def test_reports_on_rules_blank_lines_and_texts(
    counted: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bare = folder / "bare"
    assert run("train", "parse", str(folder / "rules.cfg"), "--model", "grammar", "-o", str(bare)) == 0
    out = capsys.readouterr().out
    assert "read 0" not in out, "rules are not counted as trees"
    assert "dev:" not in out
    (folder / "gaps.txt").write_text("the man sees a dog\n\nthe man sees a unicorn\nman the\n")
    assert run("predict", str(bare), str(folder / "gaps.txt")) == 0
    assert lines_of(capsys)[1] == ""
    assert run("predict", str(bare), str(folder / "gaps.txt"), "--format", "jsonl") == 0
    rows = [json.loads(line) for line in lines_of(capsys)]
    assert rows[1]["tree"] is None
    assert rows[2]["note"].startswith("the grammar does not have the word 'unicorn'")
    assert rows[3]["note"] == "the grammar has every word, but no parse of them in this order"
    error = refused(capsys, "evaluate", str(counted), str(folder / "gaps.txt"))
    assert "this parser is evaluated on trees in brackets" in error
    assert "--model" not in error
    assert run("draw", str(bare), "the man sees a dog", "a dog sees the man") == 0
    assert "\n\n" in capsys.readouterr().out, "a blank line between two pictures"
