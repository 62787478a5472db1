"""Parsing by writing the tree: symbols of trees, words and classes, predictions, and whole runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import settings as trying

import catena
from catena import config as configs
from catena.cli.main import main
from catena.data.batches import pad
from catena.data.readers.brackets import read, to_text
from catena.errors import ConfigError, DataError
from catena.randomness import Randomness
from catena.seq2seq.base import Source
from catena.tasks.application import PredictOptions
from catena.tasks.load import load
from catena.tasks.parse.config import ParseConfig
from catena.tasks.parse.constituency.application import ConstituencyApplication
from catena.tasks.parse.constituency.config import SequenceParserConfig
from catena.tasks.parse.constituency.linear import END, FIRST, TreeSymbols
from catena.tasks.parse.constituency.predictor import CountedPredictor
from catena.tasks.parse.constituency.sequence_decode import (
    SequenceParser,
    bracket_shares,
    max_expected_recall,
    tag_shares,
)
from catena.tasks.parse.constituency.sequence_task import build_network
from catena.tasks.parse.constituency.sequence_words import SourceWords
from catena.tasks.pretrained import Pretrained
from tests.laws.network_laws import the_network_answers
from tests.laws.resume_laws import SEED, killed_anywhere_ends_the_same
from tests.tasks.parse.constituency.banks import trees, write_bank
from tests.tasks.parse.constituency.test_trees import TREES, leaf, over

SMALL: dict[str, Any] = {
    "kind": "seq2seq",
    "network": {"kind": "recurrent", "d": 16, "d_embedding": 8, "dropout": 0.0},
    "search": {"width": 2},
    "draws": 4,
    "brackets": 0.1,
}


# --- trees and words as ids -------------------------------------------------------------------------------------------


@trying(max_examples=40)
@given(TREES)
def test_symbols_restore_the_tree(tree: Any) -> None:
    symbols = TreeSymbols.count([tree], tags=True)
    ids = symbols.written(tree)
    assert ids is not None
    assert FIRST <= min(ids) <= max(ids) < len(symbols)
    assert to_text(symbols.read(ids, tree.words())) == to_text(tree)
    bare = TreeSymbols.count([tree], tags=False)
    found = bare.read(bare.written(tree) or (), tree.words())
    assert found.words() == tree.words()
    assert {word.label for word in found.leaves()} == {"XX"}


def test_written_symbols_have_labeled_brackets(tmp_path: Path) -> None:
    tree = over("S", [over("NP", [leaf("D", "the"), leaf("N", "cat")]), over("VP", [leaf("V", "sleeps")])])
    symbols = TreeSymbols.count([tree], tags=True)
    named = {
        **dict(zip(symbols.ids.opening, [f"({name}" for name in symbols.labels.names], strict=True)),
        **dict(zip(symbols.ids.closing, [f"){name}" for name in symbols.labels.names], strict=True)),
        **dict(zip(symbols.ids.leaves, symbols.tags.names, strict=True)),
    }
    assert " ".join(named[id] for id in symbols.written(tree) or ()) == "(S (NP D N )NP (VP V )VP )S"
    assert symbols.written(over("S", [over("PP", [leaf("D", "the")])])) is None, "an unknown label"
    assert symbols.written(over("S", [leaf("P", "in")])) is None, "an unknown tag"
    symbols.save(tmp_path)
    assert TreeSymbols.load(tmp_path).written(tree) == symbols.written(tree)
    deep = tree
    for _ in range(3000):
        deep = over("S", [deep])
    assert len(symbols.read(symbols.written(deep) or (), deep.words()).words()) == 3


def test_rare_and_unknown_words_are_read_as_their_class(tmp_path: Path) -> None:
    sentences = [["Ada", "the", "Otto", "walked", "Uta"], ["the", "talked", "jumped", "walked", "7"]]
    words = SourceWords.count(sentences, rare=1)
    known = set(words.vocabulary.symbols[3:])
    assert {"the", "walked", "UNK:cap", "UNK:ed", "UNK"} <= known
    assert "UNK:num" not in known, "a class needs more than one word"

    def names(*given: str) -> list[str]:
        return words.vocabulary.tokens(words.ids(given).tolist())

    assert names("the", "Ada", "Berta", "limped", "8", "??") == [
        "the",
        "UNK:cap",
        "UNK:cap",
        "UNK:ed",
        "UNK",
        "UNK",
        "</s>",
    ]
    classes, shares = words.dropout(0.5)
    (the,) = words.vocabulary.ids(["the"])
    (walked,) = words.vocabulary.ids(["walked"])
    assert words.vocabulary.tokens([int(classes[walked])]) == ["UNK:ed"]
    assert float(shares[the]) == pytest.approx(0.5 / 2.5)
    others = [i for i in range(len(words)) if i not in (the, walked)]
    assert shares[others].sum() == 0
    words.save(tmp_path)
    assert SourceWords.load(tmp_path).ids(["Berta"]).tolist() == words.ids(["Berta"]).tolist()


# --- predictions ------------------------------------------------------------------------------------------------------


def parser(**settings: Any) -> SequenceParser:
    """An untrained parser."""
    torch.manual_seed(1)
    made = SequenceParserConfig.model_validate({**SMALL, **settings})
    bank = trees(20, longest=8)
    words = SourceWords.count([tree.words() for tree in bank], made.rare)
    symbols = TreeSymbols.count(bank, made.tags)
    return SequenceParser(build_network(made, words, symbols).double(), made, words, symbols)


SENTENCES = [("dog",), ("the", "unicorn", "sees"), ("a", "dog", "likes", "the", "man", "in", "a", "park")]


@pytest.mark.parametrize(
    ("settings", "options", "n"),
    [
        ({}, PredictOptions(), 1),
        ({}, PredictOptions(n_best=3, scores=True), 3),
        ({"tags": False, "network": {**SMALL["network"], "attention": "none"}}, PredictOptions(samples=2), 2),
        ({"decoding": "recall"}, PredictOptions(confidence=True), 1),
    ],
)
def test_search_writes_only_trees_over_the_words(settings: dict[str, Any], options: PredictOptions, n: int) -> None:
    for words, parsed in zip(SENTENCES, parser(**settings).parse(SENTENCES, options), strict=True):
        assert len(parsed.answers) == n
        assert all(answer.tree.words() == words for answer in parsed.answers)
        assert (parsed.brackets is not None) == options.confidence
        if parsed.brackets is not None:
            assert max(parsed.brackets.values()) <= 1
            assert all(sum(shares.values()) == pytest.approx(1) for shares in parsed.tags or ())


def test_log_probabilities_equal_the_network_in_any_batch() -> None:
    made = parser()
    for words, parsed in zip(SENTENCES, made.parse(SENTENCES, PredictOptions(n_best=2)), strict=True):
        (alone,) = made.parse([words], PredictOptions(n_best=2))
        assert [to_text(one.tree) for one in alone.answers] == [to_text(one.tree) for one in parsed.answers]
        ids, lengths = pad([made.words.ids(words)])
        for answer in parsed.answers:
            target = torch.tensor([[*(made.symbols.written(answer.tree) or ()), END]])
            with torch.no_grad():
                own = made.network.token_log_probs(Source(ids, lengths), target, torch.tensor([target.shape[1]]))
            assert answer.log_probability == pytest.approx(float(own.sum()), abs=1e-6)


def test_ensemble_averages_probabilities() -> None:
    made = parser()
    twice = SequenceParser(made.network, made.settings, made.words, made.symbols, [made.network])
    assert made.writes_like(twice)
    for one, two in zip(made.parse(SENTENCES), twice.parse(SENTENCES), strict=True):
        assert to_text(one.tree) == to_text(two.tree)
        assert one.answers[0].log_probability == pytest.approx(two.answers[0].log_probability)
    assert not made.writes_like(parser(tags=False))


def test_brackets_are_counted_over_trees() -> None:
    one = over("S", [over("NP", [leaf("D", "a"), leaf("N", "b")]), leaf("V", "c")])
    two = over("S", [leaf("D", "a"), over("VP", [leaf("N", "b"), leaf("N", "c")])])
    drawn = [one, one, two]
    assert bracket_shares(drawn)["NP", 0, 2] == pytest.approx(2 / 3)
    assert bracket_shares(drawn)["S", 0, 3] == 1
    assert tag_shares(drawn)[2] == {"V": pytest.approx(2 / 3), "N": pytest.approx(1 / 3)}
    assert to_text(max_expected_recall(("a", "b", "c"), drawn, 0.4)) == to_text(one)
    chain = over("S", [over("NP", [over("QP", [leaf("D", "a")])])])
    assert to_text(max_expected_recall(("a",), [chain, chain], 0.4)) == to_text(chain)


# --- whole runs -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sequence")
    write_bank(path / "train.mrg", 50, longest=7)
    write_bank(path / "test.mrg", 4, seed=5, longest=7)
    (path / "texts.txt").write_text("the man sees a dog\n\na cat likes the unicorn\n")
    return path


def config(folder: Path, **sections: Any) -> ParseConfig:
    values: dict[str, Any] = {
        "machine": {"device": "cpu", "threads": 1},
        "data": {"train": [str(folder / "train.mrg")], "test": str(folder / "test.mrg")},
        "model": SMALL,
        "batches": {"batch_size": 150, "batch_by": "tokens"},
        "training": {"optimizer": "adam", "learning_rate": 0.02, "max_epochs": 1},
        **sections,
    }
    return configs.parse(ParseConfig, values)


def test_train_predict_evaluate_and_draw(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "config.toml").write_text(configs.to_toml(config(folder)), encoding="utf-8")
    out = str(folder / "run")
    assert main(["train", "parse", "-c", str(folder / "config.toml"), "-o", out]) == 0
    said = capsys.readouterr().out
    assert "4 labels, 5 tags" in said
    assert "test: f1" in said
    the_network_answers(catena.load(out, "cpu"), ["the man sees a dog"])
    assert main(["predict", out, str(folder / "texts.txt")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == ""
    (folder / "found.mrg").write_text("\n".join(lines) + "\n")
    assert [" ".join(tree.words()) for tree in read(folder / "found.mrg")] == [
        "the man sees a dog",
        "a cat likes the unicorn",
    ]
    model = load(folder / "run", "cpu")
    options = PredictOptions(n_best=2, scores=True)
    row = json.loads(model.write(model.predict(["the man sees a dog"], options)[0], "", "jsonl"))
    assert row["trees"][0]["log_probability"] >= row["trees"][1]["log_probability"]
    assert 0 <= model.evaluate(folder / "test.mrg").scores["f1"] <= 1
    assert "dog" in model.sketch("the man sees a dog")
    with pytest.raises(DataError, match="--constraint is not an option of"):
        model.predict(["the man"], PredictOptions(constraint=folder / "texts.txt"))
    assert model.describe(2)[0].startswith("a parser that writes trees, recurrent")
    both = model.together([model]).searching(PredictOptions(beam_size=1))
    assert both.parser.others == (model.parser.network,)
    assert both.parser.settings.search.width == 1
    assert both.predict(["the man sees"])[0].tree.words() == ("the", "man", "sees")
    with pytest.raises(DataError, match=r"model 2 has others\. Train models of kind seq2seq on the same trees"):
        model.together([object.__new__(CountedPredictor)])
    again = ["train", "parse", str(folder / "train.mrg"), "--from", out, "--max-epochs", "1", "-q"]
    assert main([*again, "-o", str(folder / "again")]) == 0
    (folder / "other.mrg").write_text("(X (Y (Z a)))\n(X (Y (Z b)))\n" * 3)
    strange = ["train", "parse", str(folder / "other.mrg"), "--from", out, "-q", "-o", str(folder / "strange")]
    assert main(strange) != 0
    assert "only labels and tags of the old model" in capsys.readouterr().err


def test_resumed_run_equals_uninterrupted_run(folder: Path, tmp_path: Path) -> None:
    made = config(
        folder, model={**SMALL, "rare": 0, "unknown_dropout": 5.0}, batches={"batch_size": 60, "batch_by": "tokens"}
    )

    def make_task() -> Any:
        data = ConstituencyApplication().prepare(made, Randomness(SEED), None, None)
        return ConstituencyApplication().task(made, data, torch.device("cpu"), Randomness(SEED))

    killed_anywhere_ends_the_same(make_task, made.training, tmp_path, kills=[2])


def test_unknown_dropout_replaces_words_in_training(folder: Path) -> None:
    made = config(folder, model={**SMALL, "rare": 0, "unknown_dropout": 1e9})
    data = ConstituencyApplication().prepare(made, Randomness(0), None, None)
    task: Any = ConstituencyApplication().task(made, data, torch.device("cpu"), Randomness(0))
    batch = task.epoch(1).batch(0)
    task.model.eval()
    own = task.loss(batch).total
    classes = Source(task._classes[batch.source.ids], batch.source.lengths)
    assert own.item() == pytest.approx(task.network.loss(classes, batch.targets, batch.lengths).item())
    assert own.item() != pytest.approx(task.network.loss(batch.source, batch.targets, batch.lengths).item())


def test_short_trees_are_learned(folder: Path) -> None:
    made = config(folder, training={"optimizer": "adam", "learning_rate": 0.02, "max_epochs": 1})
    data = ConstituencyApplication().prepare(made, Randomness(0), None, None)
    task: Any = ConstituencyApplication().task(made, data, torch.device("cpu"), Randomness(0))
    optimizer = torch.optim.Adam(task.model.parameters(), 0.03)
    before = task.evaluate().scores
    for step in range(60):
        plan = task.epoch(1)
        optimizer.zero_grad()
        task.loss(plan.batch(step % len(plan))).total.backward()
        optimizer.step()
    after = task.evaluate().scores
    assert after["f1"] > before["f1"] + 0.2
    assert after["tagging"] > before["tagging"] + 0.1


def test_pretrained_is_rejected(folder: Path) -> None:
    start = object.__new__(Pretrained)
    with pytest.raises(ConfigError, match=r"pretrained needs model.kind = 'span', got 'seq2seq'"):
        ConstituencyApplication().adopted(config(folder), start)


def test_recall_decoding_needs_the_option() -> None:
    assert not SequenceParserConfig().by_recall
    assert SequenceParserConfig(decoding="recall").by_recall
    with pytest.raises(ValueError, match="trees are written without words"):
        SequenceParserConfig.model_validate({"network": {"kind": "copy"}})
