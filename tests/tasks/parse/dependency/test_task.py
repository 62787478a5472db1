"""Whole runs of the parser: recovery of a known generator, exact resumption, starts from other models."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from catena.config import parse
from catena.data.readers.conllu import write
from catena.data.reading import ReadCounter
from catena.data.vocabulary import Labels
from catena.errors import CheckpointError, ConfigError, DataError, FormatError
from catena.randomness import Randomness
from catena.tasks.base import EvaluationResult, Origin
from catena.tasks.parse.config import ParseConfig
from catena.tasks.parse.dependency.task import DependencyTask
from catena.tasks.parse.predict import count_unseen
from catena.tasks.runs import resume_run, train_run
from catena.tasks.sources import Sources
from catena.training.report import SilentReporter
from tests.laws.resume_laws import SEED, killed_anywhere_ends_the_same
from tests.tasks.parse.dependency.helpers import SMALL_MODEL, config, conllu, generated, load, prepared
from tests.tasks.word_inputs.language_model import language_model

LEARNING = {"max_steps": 150, "eval_every": 75, "patience": 0, "learning_rate": 0.01, "schedule": "constant"}
BATCHES = {"batch_size": 60, "batch_by": "tokens"}


def trained(made: ParseConfig, folder: Path) -> dict[str, float]:
    return train_run(made, folder, SilentReporter()).scores


def evaluated(folder: Path, path: Path) -> EvaluationResult:
    task = load(folder)
    return task.evaluate(task.read(task.config, path, ReadCounter()))


@pytest.mark.parametrize(
    ("loss", "trees"),
    [
        ("matrix_tree", "nonprojective"),
        ("eisner", "projective"),
        ("head", "nonprojective"),
        ("margin", "nonprojective"),
        ("margin", "projective"),
    ],
)
def test_every_loss_recovers_a_known_generator(tmp_path: Path, loss: str, trees: str) -> None:
    model = {**SMALL_MODEL, "loss": loss, "trees": trees}
    made = config(tmp_path, generated(60, 1), model=model, training=LEARNING, batches=BATCHES)
    trained(made, tmp_path / "run")
    unseen = tmp_path / "unseen.conllu"
    write(unseen, generated(40, 2))
    scores = evaluated(tmp_path / "run", unseen).scores()
    assert scores["las"] > 0.97
    assert scores["uas"] > 0.97


@pytest.mark.parametrize("crossing", [False, True])
def test_trees_depend_on_the_crossing_arcs_of_train(tmp_path: Path, crossing: bool) -> None:
    training, model = {**LEARNING, "max_steps": 1}, {**SMALL_MODEL, "trees": "auto"}
    made = config(tmp_path, generated(20, 1, crossing=crossing), model=model, training=training, batches=BATCHES)
    trained(made, tmp_path / "run")
    task = load(tmp_path / "run")
    assert task.config.model.trees == "auto"
    assert task.settings.trees == ("nonprojective" if crossing else "projective")


def test_crossing_arcs_are_learned_or_lifted(tmp_path: Path) -> None:
    for loss, trees in (("matrix_tree", "nonprojective"), ("eisner", "projective")):
        model = {**SMALL_MODEL, "loss": loss, "trees": trees}
        made = config(tmp_path, generated(60, 1, crossing=True), model=model, training=LEARNING, batches=BATCHES)
        trained(made, tmp_path / trees)
        scores = evaluated(tmp_path / trees, tmp_path / "train.conllu").scores()
        assert (scores["nonprojective_recall"] > 0.9) == (trees == "nonprojective")
        if trees == "projective":
            assert scores["nonprojective_recall"] == 0.0
            data = prepared(made).data
            assert any("60 sentences have crossing arcs, which are lifted" in line for line in data.lines)
            assert data.train.examples[0].tree.words[-1].head in ("0", "2")
            assert data.dev.examples[0].tree.words[-1].head == "1", "gold trees of dev are not lifted"


def test_partial_annotation_is_learned(tmp_path: Path) -> None:
    sentences = generated(80, 1)
    partial = []
    for i, sentence in enumerate(sentences):
        rows = tuple(row if (i + j) % 2 else row._replace(head="_", deprel="_") for j, row in enumerate(sentence.rows))
        partial.append(type(sentence)(rows, (), sentence.location))
    made = config(tmp_path, partial, training=LEARNING, batches=BATCHES)
    write(tmp_path / "dev.conllu", generated(30, 2))
    made = made.model_copy(update={"data": made.data.model_copy(update={"dev": str(tmp_path / "dev.conllu")})})
    assert trained(made, tmp_path / "run")["las"] > 0.9


@pytest.mark.parametrize("loss", ["matrix_tree", "margin"])
def test_killed_and_resumed_run_gives_the_same_result(tmp_path: Path, loss: str) -> None:
    words = {**SMALL_MODEL["words"], "dropout": 0.2, "unknown_dropout": 0.25, "characters": {"kind": "cnn"}}  # type: ignore[dict-item]
    model = {**SMALL_MODEL, "loss": loss, "dropout": 0.3, "words": words}
    training = {"max_epochs": 2, "save_every": 3}
    made = config(tmp_path, generated(24, 1), model=model, training=training, batches={"batch_size": 4})

    killed_anywhere_ends_the_same(lambda: prepared(made, SEED), made.training, tmp_path, kills=[5])


def test_run_is_resumed_and_used_as_a_start(tmp_path: Path) -> None:
    made = config(tmp_path, generated(20, 1), training={"max_epochs": 2}, batches=BATCHES)
    first = train_run(made, tmp_path / "run", SilentReporter())
    again = resume_run(tmp_path / "run", SilentReporter())
    assert again.scores == first.scores
    later = train_run(made, tmp_path / "later", SilentReporter(), init_from=tmp_path / "run")
    assert later.scores["las"] >= 0
    other = made.model_copy(update={"model": made.model.model_copy(update={"d_arc": 17})})
    with pytest.raises(CheckpointError, match="the model must have the options of the one in"):
        train_run(other, tmp_path / "other", SilentReporter(), init_from=tmp_path / "run")


def test_relation_unknown_to_the_old_model_is_reported_with_its_line(tmp_path: Path) -> None:
    made = config(tmp_path, generated(10, 1), training={"max_epochs": 1}, batches=BATCHES)
    trained(made, tmp_path / "run")
    new = config(tmp_path, [conllu("we see", "2 0", "subjct root")], training={"max_epochs": 1}, batches=BATCHES)
    with pytest.raises(DataError, match=r"train\.conllu:1: 'subjct' is not one of the .* labels .* 'subject'"):
        train_run(new, tmp_path / "new", SilentReporter(), init_from=tmp_path / "run")


# --- unusable data ----------------------------------------------------------------------------------------------------


def dropped(made: ParseConfig) -> list[str]:
    """The reasons why training sentences are dropped."""
    sources = Sources(DependencyTask, made)
    DependencyTask.prepare(made, sources, Origin(Randomness(0)))
    return sorted(one.reason for one in sources.counter.dropped)


def test_sentences_that_training_cannot_use_are_dropped_and_counted(tmp_path: Path) -> None:
    odd = [conllu("a b c", "_ _ _"), conllu("a " * 30, "0 " + "1 " * 29), conllu("we _ x", "2 0 _")]
    sentences = [*generated(6, 1), *odd]
    write(tmp_path / "dev.conllu", generated(2, 2))
    data = {"train": [str(tmp_path / "train.conllu")], "dev": str(tmp_path / "dev.conllu"), "max_length": 20}
    made = config(tmp_path, sentences, data=data)
    assert dropped(made) == ["longer than max_length=20", "without any head"]
    assert any("read 11; used 9; dropped 2" in line for line in prepared(made).data.lines)
    model = {**SMALL_MODEL, "loss": "margin"}
    again = made.model_copy(update={"model": type(made.model).model_validate(model)})
    assert "without all heads, which loss = margin needs" in dropped(again)


def test_partial_crossing_arcs_are_dropped_only_for_eisner(tmp_path: Path) -> None:
    sentences = [*generated(6, 1), conllu("a b c d", "3 4 _ _")]
    write(tmp_path / "dev.conllu", generated(2, 2))
    data = {"train": [str(tmp_path / "train.conllu")], "dev": str(tmp_path / "dev.conllu")}
    for loss, trees, n in (("eisner", "projective", 1), ("matrix_tree", "nonprojective", 0)):
        model = {**SMALL_MODEL, "loss": loss, "trees": trees}
        assert len(dropped(config(tmp_path, sentences, model=model, data=data))) == n


@pytest.mark.parametrize(
    ("heads", "reason", "line"),
    [
        ("2 0 3", "with a word that is its own head", 3),
        ("2 1 0", "with a cycle of heads", 1),
        ("0 9 1", "with a head outside the sentence", 2),
        ("2 0 0", "with 2 roots", 1),
    ],
)
def test_sentences_with_broken_heads_are_dropped(tmp_path: Path, heads: str, reason: str, line: int) -> None:
    broken = conllu("a b c", heads)
    good = generated(4, 1)
    made = config(tmp_path, [broken, *good], data={"train": [str(tmp_path / "train.conllu")], "dev_fraction": 0.2})
    sources = Sources(DependencyTask, made)
    parts = sources.split()
    task = DependencyTask.new(made, parts.train, Origin(Randomness(0)), [])
    sources.keep_usable([*parts.train, *parts.dev], task.usable)
    (dropped,) = sources.counter.dropped
    assert (dropped.reason, dropped.location.line, dropped.text[:1]) == (reason, line, "2" if line == 2 else "a")
    write(tmp_path / "train.conllu", [broken])
    message = rf"No example of train can be used: .*{reason}.* the first is .*train\.conllu:{line}\."
    with pytest.raises(DataError, match=message):
        prepared(made.model_copy(update={"data": made.data.model_copy(update={"dev": made.data.train[0]})}))


def test_blank_lines_of_a_text_to_predict_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("we see\n\ncats\n", encoding="utf-8")
    found = DependencyTask.read(config(tmp_path, generated(2, 1)), path, ReadCounter(), gold=False)
    assert [example.words for example in found] == [("we", "see"), (), ("cats",)]


def test_several_roots_are_used_if_the_model_allows_them(tmp_path: Path) -> None:
    several = {**SMALL_MODEL, "single_root": False}
    data = {"train": [str(tmp_path / "train.conllu")]}
    both = [conllu("a b c", "2 0 0"), conllu("a b", "0 0")]
    assert len(prepared(config(tmp_path, both, model=several, data=data)).data.train) == 1


def test_gold_trees_with_several_roots_are_scored(tmp_path: Path) -> None:
    made = config(tmp_path, [*generated(4, 1), conllu("a b c", "2 0 0")])
    counter = ReadCounter()
    assert len(list(DependencyTask.read(made, tmp_path / "train.conllu", counter))) == counter.read == 5


def test_heads_of_files_to_predict_are_not_checked(tmp_path: Path) -> None:
    path = tmp_path / "text.conllu"
    write(path, [conllu("a b c", "2 1 9"), conllu("a b", "_ _")])
    made = config(tmp_path, generated(2, 1))
    found = list(DependencyTask.read(made, path, ReadCounter(), gold=False))
    assert [example.words for example in found] == [("a", "b", "c"), ("a", "b")]


def test_dev_without_any_complete_tree_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"No example of dev can be used: .*1 with a word without a head"):
        prepared(config(tmp_path, [conllu("a b", "0 _")]))


def test_other_formats_and_empty_files_are_rejected(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("no trees at all\n", encoding="utf-8")
    made = config(tmp_path, generated(2, 1), data={"train": [str(text)]})
    with pytest.raises(FormatError, match=r"text\.txt must be CoNLL-U for this parser, got 'text'.*--model grammar"):
        prepared(made)
    text.write_text("", encoding="utf-8")
    with pytest.raises(FormatError, match=r"text\.txt is empty\..* Give a file of trees in CoNLL-U"):
        prepared(made)
    with pytest.raises(DataError, match="There is nothing to train on"):
        prepared(config(tmp_path, generated(2, 1), data={}))
    one = config(tmp_path, generated(1, 1), data={"train": [str(tmp_path / "train.conllu")]})
    with pytest.raises(DataError, match="1 example cannot be split into train and dev"):
        prepared(one)


def test_incompatible_options_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="loss = 'eisner' gives trees with crossing arcs the probability 0"):
        config(tmp_path, generated(2, 1), model={**SMALL_MODEL, "loss": "eisner", "trees": "nonprojective"})
    for name in ("head", "deprel", "deps"):
        with pytest.raises(ConfigError, match=f"columns has '{name}', a column of the trees to predict"):
            config(tmp_path, generated(2, 1), model={**SMALL_MODEL, "words": {"columns": ["upos", name]}})
    with pytest.raises(ConfigError, match=r"Unknown training.metric 'lass' of this model.*'las'"):
        config(tmp_path, generated(2, 1), training={"metric": "lass"})
    with pytest.raises(ConfigError, match=r"tokenizer\.kind must keep words whole for parsing, got 'bpe'"):
        config(tmp_path, generated(2, 1), tokenizer={"kind": "bpe"})


def test_kind_of_model_defaults_to_the_trees_of_the_file(tmp_path: Path) -> None:
    trees = tmp_path / "trees.mrg"
    trees.write_text("(S (NP (PRP we)) (VP (VBP see)))\n", encoding="utf-8")
    sentences = tmp_path / "sentences.conllu"
    write(sentences, generated(2, 1))
    for path, kind in ((trees, "span"), (sentences, "biaffine")):
        assert parse(ParseConfig, {"data": {"train": [str(path)]}}).model.kind == kind
    named = parse(ParseConfig, {"data": {"train": [str(trees)]}, "model": {"kind": "pcfg"}})
    assert named.model.kind == "pcfg"
    assert parse(ParseConfig, {"data": {"train": ["missing.mrg"]}}).model.kind == "biaffine"  # the reader reports it


def test_folds_and_dev_are_a_partition(tmp_path: Path) -> None:
    data = {"train": [str(tmp_path / "train.conllu")], "folds": 4, "fold": 1, "dev_fraction": 0.2}
    found = prepared(config(tmp_path, generated(20, 1), data=data)).data
    lines = [{example.location.line for example in part.examples} for part in (found.train, found.dev, found.test)]
    assert [len(part) for part in lines] == [12, 3, 5]
    assert len(set.union(*lines)) == 20


def test_word_columns_are_read(tmp_path: Path) -> None:
    words = {**SMALL_MODEL["words"], "columns": ["upos"]}  # type: ignore[dict-item]
    made = config(tmp_path, generated(10, 1), model={**SMALL_MODEL, "words": words}, training={"max_epochs": 1})
    trained(made, tmp_path / "run")
    task = load(tmp_path / "run")
    assert task.predict(generated(1, 1))[0].heads
    with pytest.raises(DataError, match="this parser reads upos of each word, which plain text does not have"):
        task.predict(["we see"])


def test_a_parser_starts_from_a_language_model(tmp_path: Path) -> None:
    pretrained = language_model("we see cats\nwe hear dogs know birds")
    made = DependencyTask.adopt(config(tmp_path, generated(10, 1), unfreeze=1), pretrained)
    training = prepared(made, pretrained=pretrained)
    task = training.task
    assert isinstance(task, DependencyTask)
    (vectors,) = task.parser.encoder.reader.embedding.parameters()
    assert torch.equal(vectors, pretrained.weights["embedding.weight"])
    training.epoch(1)
    assert not vectors.requires_grad
    training.epoch(5)
    assert vectors.requires_grad
    assert task.parser.encoder.reader.context is not None
    assert task.predict(["we see cats"])[0].heads


# --- relations that do not occur in train -----------------------------------------------------------------------------


def test_unseen_relations_are_reported_and_not_classes(tmp_path: Path) -> None:
    made = config(tmp_path, [conllu("we see cats", "2 0 2", "nsubj root obj")])
    dev = tmp_path / "dev.conllu"
    write(dev, [conllu("we see cats", "2 0 2", "nsubj:pass root goal")])
    training = prepared(made.model_copy(update={"data": made.data.model_copy(update={"dev": str(dev)})}))
    assert training.task.encoding.relations.names == ("nsubj", "obj", "root")
    line = "dev and test: 1 words have a relation that training never showed ('goal' 1); they count as errors"
    assert line in training.data.lines


def test_count_unseen_compares_relations_without_subtypes() -> None:
    assert count_unseen(["obl:arg", "root", "case"], Labels(["obl", "root:x"])) == {"case": 1}


def test_scores_without_padding_equal_those_of_training(tmp_path: Path) -> None:
    """In training every position of the batch is multiplied, in prediction on a CPU only words and the root."""
    task = prepared(config(tmp_path, [*generated(4, 1), conllu("a", "0")])).task
    assert isinstance(task, DependencyTask)
    rows = task.encode([task.to_example(sentence) for sentence in [conllu("a", "0"), *generated(4, 1)]])
    batch = rows.words.batch(range(5), task.device)
    for weight in task.parser.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    wanted = task.parser.train()(batch)  # this model has no dropout
    with torch.inference_mode():
        found = task.parser.eval()(batch)
    for i, n in enumerate((batch.lengths + 1).tolist()):
        torch.testing.assert_close(found.arcs[i, :n, :n], wanted.arcs[i, :n, :n], rtol=1e-4, atol=1e-4)
        for own, other in ((found.heads, wanted.heads), (found.dependents, wanted.dependents)):
            torch.testing.assert_close(own[i, :n], other[i, :n], rtol=1e-4, atol=1e-4)
