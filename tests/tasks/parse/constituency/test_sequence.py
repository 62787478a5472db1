"""Parsing by writing the tree: symbols of trees, words and classes, predictions, and whole runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import settings as trying

from catena import config as configs
from catena.data.batches import pad
from catena.data.readers.brackets import to_text
from catena.errors import ConfigError, DataError
from catena.randomness import Randomness
from catena.seq2seq.base import Source
from catena.tasks.base import Origin
from catena.tasks.neural import NetworkTraining
from catena.tasks.parse.config import ParseConfig, SequenceParseOptions
from catena.tasks.parse.constituency.config import SequenceParserConfig
from catena.tasks.parse.constituency.sequence.symbols import END, FIRST, SourceWords, TreeSymbols
from catena.tasks.parse.constituency.sequence.task import SequenceTask
from catena.tasks.parse.constituency.trees import bracket_fractions, max_expected_recall, tag_fractions
from catena.tasks.runs import load_task, train_run
from catena.tasks.sources import Sources
from catena.training.report import SilentReporter
from tests.laws.network_laws import the_network_answers
from tests.laws.resume_laws import SEED, killed_anywhere_ends_the_same
from tests.tasks.parse.constituency.banks import evaluated, model_config, sentence, trees, write_bank
from tests.tasks.parse.constituency.test_trees import TREES, leaf, over

SMALL: dict[str, Any] = {
    "kind": "seq2seq",
    "network": {"kind": "recurrent", "d": 16, "d_embedding": 8, "dropout": 0.0},
    "search": {"beam_size": 2},
    "draws": 4,
    "brackets": 0.1,
}


# --- trees and words as ids -------------------------------------------------------------------------------------------


@trying(max_examples=40)
@given(TREES)
def test_symbols_restore_the_tree(tree: Any) -> None:
    symbols = TreeSymbols.count([tree], tags=True)
    ids = symbols.write(tree)
    assert ids is not None
    assert FIRST <= min(ids) <= max(ids) < len(symbols)
    assert to_text(symbols.read(ids, tree.words())) == to_text(tree)
    bare = TreeSymbols.count([tree], tags=False)
    found = bare.read(bare.write(tree) or (), tree.words())
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
    assert " ".join(named[id] for id in symbols.write(tree) or ()) == "(S (NP D N )NP (VP V )VP )S"
    assert symbols.write(over("S", [over("PP", [leaf("D", "the")])])) is None, "an unknown label"
    assert symbols.write(over("S", [leaf("P", "in")])) is None, "an unknown tag"
    symbols.save(tmp_path)
    assert TreeSymbols.load(tmp_path).write(tree) == symbols.write(tree)
    deep = tree
    for _ in range(3000):
        deep = over("S", [deep])
    assert len(symbols.read(symbols.write(deep) or (), deep.words()).words()) == 3


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
    classes, probabilities = words.dropout(0.5)
    (the,) = words.vocabulary.ids(["the"])
    (walked,) = words.vocabulary.ids(["walked"])
    assert words.vocabulary.tokens([int(classes[walked])]) == ["UNK:ed"]
    assert float(probabilities[the]) == pytest.approx(0.5 / 2.5)
    others = [i for i in range(len(words)) if i not in (the, walked)]
    assert probabilities[others].sum() == 0
    words.save(tmp_path)
    assert SourceWords.load(tmp_path).ids(["Berta"]).tolist() == words.ids(["Berta"]).tolist()


# --- predictions ------------------------------------------------------------------------------------------------------


def parser(**model: Any) -> SequenceTask:
    """An untrained parser."""
    torch.manual_seed(1)
    made = model_config(**{**SMALL, **model})
    bank = [sentence(*tree.words()) for tree in trees(20, longest=8)]
    examples = [type(one)(one.words, tree, one.location) for one, tree in zip(bank, trees(20, longest=8), strict=True)]
    encoding = SequenceTask.fit_encoding(made, examples, Origin(Randomness(0)))
    return SequenceTask(made, encoding, SequenceTask.build_network(made, encoding).double().eval())


SENTENCES = [("dog",), ("the", "unicorn", "sees"), ("a", "dog", "likes", "the", "man", "in", "a", "park")]


@pytest.mark.parametrize(
    ("model", "options", "n"),
    [
        ({}, SequenceParseOptions(), 1),
        ({}, SequenceParseOptions(n_best=3, scores=True), 3),
        ({"tags": False, "network": {**SMALL["network"], "attention": "none"}}, SequenceParseOptions(samples=2), 2),
        ({"decoding": "recall"}, SequenceParseOptions(confidence=True), 1),
    ],
)
def test_search_writes_only_trees_over_the_words(model: dict[str, Any], options: SequenceParseOptions, n: int) -> None:
    for words, parsed in zip(SENTENCES, parser(**model).predict(SENTENCES, options), strict=True):
        assert len(parsed.ranked) == n
        assert all(one.tree.words() == words for one in parsed.ranked)
        assert (parsed.brackets is not None) == options.confidence
        assert (parsed.log_prob is not None) == (options.several or options.scores)
        if parsed.brackets is not None:
            assert max(parsed.brackets.values()) <= 1
            assert all(sum(fractions.values()) == pytest.approx(1) for fractions in parsed.tags or ())


def test_log_probabilities_equal_the_network_in_any_batch() -> None:
    made = parser()
    options = SequenceParseOptions(n_best=2)
    for words, parsed in zip(SENTENCES, made.predict(SENTENCES, options), strict=True):
        (alone,) = made.predict([words], options)
        assert [str(one) for one in alone.n_best] == [str(one) for one in parsed.n_best]
        ids, lengths = pad([made.words.ids(words)])
        for one in parsed.n_best:
            target = torch.tensor([[*(made.symbols.write(one.tree) or ()), END]])
            with torch.no_grad():
                own = made.decoder.token_log_probs(Source(ids, lengths), target, torch.tensor([target.shape[1]]))
            assert one.log_prob == pytest.approx(float(own.sum()), abs=1e-6)


def test_ensemble_averages_probabilities() -> None:
    made = parser()
    twice = made.ensemble([made])
    assert twice.networks == (made.decoder, made.decoder)
    options = SequenceParseOptions(scores=True)
    for one, two in zip(made.predict(SENTENCES, options), twice.predict(SENTENCES, options), strict=True):
        assert str(one) == str(two)
        assert one.log_prob == pytest.approx(two.log_prob)
    assert len(twice.ensemble([twice]).networks) == 4
    with pytest.raises(DataError, match=r"model 2 has others\. Train models of kind seq2seq on the same trees"):
        made.ensemble([parser(tags=False)])


def test_beam_size_of_predict_or_of_the_model_is_used() -> None:
    made = parser()
    narrow = made.search_options(SequenceParseOptions(beam_size=1))
    assert narrow.settings.search.beam_size == 1
    assert narrow.predict(SENTENCES) == made.predict(SENTENCES, SequenceParseOptions(beam_size=1))
    wide = made.predict(SENTENCES, SequenceParseOptions(beam_size=20, scores=True))
    best = made.predict(SENTENCES, SequenceParseOptions(beam_size=1, scores=True))
    assert sum(one.log_prob or 0 for one in wide) > sum(one.log_prob or 0 for one in best)


def test_brackets_are_counted_over_trees() -> None:
    one = over("S", [over("NP", [leaf("D", "a"), leaf("N", "b")]), leaf("V", "c")])
    two = over("S", [leaf("D", "a"), over("VP", [leaf("N", "b"), leaf("N", "c")])])
    samples = [one, one, two]
    assert bracket_fractions(samples)["NP", 0, 2] == pytest.approx(2 / 3)
    assert bracket_fractions(samples)["S", 0, 3] == 1
    assert tag_fractions(samples)[2] == {"V": pytest.approx(2 / 3), "N": pytest.approx(1 / 3)}
    assert to_text(max_expected_recall(samples, 0.4)) == to_text(one)
    chain = over("S", [over("NP", [over("QP", [leaf("D", "a")])])])
    assert to_text(max_expected_recall([chain, chain], 0.4)) == to_text(chain)


# --- whole runs -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sequence")
    write_bank(path / "train.mrg", 50, longest=7)
    write_bank(path / "test.mrg", 4, seed=5, longest=7)
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


def prepared(made: ParseConfig, seed: int = 0) -> NetworkTraining:
    return SequenceTask.prepare(made, Sources(SequenceTask, made), Origin(Randomness(seed)))


def test_run_is_trained_loaded_and_used_as_a_start(folder: Path) -> None:
    made = config(folder)
    result = train_run(made, folder / "run", SilentReporter())
    assert set(result.test_scores) == set(result.scores)
    task = load_task(folder / "run", "cpu")
    assert isinstance(task, SequenceTask)
    the_network_answers(task, ["the man sees a dog"])
    parsed = task.predict(["the man sees a dog", "", "a cat likes the unicorn"])
    assert [one.words for one in parsed] == [
        ("the", "man", "sees", "a", "dog"),
        (),
        ("a", "cat", "likes", "the", "unicorn"),
    ]
    assert 0 <= evaluated(task, folder / "test.mrg").scores()["f1"] <= 1
    assert "dog" in task.draw_text(task.to_example("the man sees a dog"), SequenceParseOptions())
    with pytest.raises(ConfigError, match="constraint"):
        configs.parse(task.options_class, {"constraint": "x"})
    assert task.describe(2)[0].startswith("a parser that generates trees, recurrent")
    assert any("4 labels, 5 tags" in line for line in prepared(made).data.lines)
    train_run(made, folder / "again", SilentReporter(), init_from=folder / "run")
    (folder / "other.mrg").write_text("(X (Y (Z a)))\n(X (Y (Z b)))\n" * 3)
    other = config(folder, data={"train": [str(folder / "other.mrg")]})
    with pytest.raises(DataError, match="with a label or tag that the old model does not know"):
        train_run(other, folder / "strange", SilentReporter(), init_from=folder / "run")


def test_resumed_run_equals_uninterrupted_run(folder: Path, tmp_path: Path) -> None:
    made = config(
        folder, model={**SMALL, "rare": 0, "unknown_dropout": 5.0}, batches={"batch_size": 60, "batch_by": "tokens"}
    )
    killed_anywhere_ends_the_same(lambda: prepared(made, SEED), made.training, tmp_path, kills=[2])


def test_unknown_dropout_replaces_words_in_training(folder: Path) -> None:
    training = prepared(config(folder, model={**SMALL, "rare": 0, "unknown_dropout": 1e9}))
    task: Any = training.task
    batch = training.epoch(1).batch(0)
    task.decoder.eval()
    own = task.loss(batch).total
    classes = Source(task._dropout[0][batch.source.ids], batch.source.lengths)
    assert own.item() == pytest.approx(task.decoder.loss(classes, batch.targets, batch.lengths).item())
    assert own.item() != pytest.approx(task.decoder.loss(batch.source, batch.targets, batch.lengths).item())


def test_short_trees_are_learned(folder: Path) -> None:
    training = prepared(config(folder))
    optimizer = torch.optim.Adam(training.model.parameters(), 0.03)
    before = training.evaluate().scores
    for step in range(60):
        plan = training.epoch(1)
        optimizer.zero_grad()
        training.loss(plan.batch(step % len(plan))).total.backward()
        optimizer.step()
    after = training.evaluate().scores
    assert after["f1"] > before["f1"] + 0.2
    assert after["tagging"] > before["tagging"] + 0.1


def test_recall_decoding_needs_the_option() -> None:
    assert not SequenceParserConfig().by_recall
    assert SequenceParserConfig(decoding="recall").by_recall
    with pytest.raises(ValueError, match="trees are written without words"):
        SequenceParserConfig.model_validate({"network": {"kind": "copy"}})
