"""Whole runs of the parser: recovery of a known generator, exact resumption, starts from other models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from catena.checkpoint import open_checkpoint
from catena.config import parse
from catena.data.readers.conllu import write
from catena.errors import CheckpointError, ConfigError, DataError, FormatError
from catena.randomness import Randomness
from catena.tasks.lm.application import LmApplication
from catena.tasks.lm.config import LmConfig
from catena.tasks.parse.application import ParseApplication
from catena.tasks.parse.config import ParseConfig
from catena.tasks.parse.dependency.application import DependencyApplication
from catena.tasks.parse.dependency.dataset import prepare
from catena.tasks.parse.dependency.predictor import DependencyPredictor
from catena.tasks.parse.dependency.task import DependencyTask
from catena.tasks.pretrained import open_pretrained
from catena.training.report import SilentReporter
from tests.laws.resume_laws import SEED, killed_anywhere_ends_the_same
from tests.tasks.parse.dependency.helpers import SMALL_MODEL, config, conllu, generated

LEARNING = {"max_steps": 150, "eval_every": 75, "patience": 0, "learning_rate": 0.01, "schedule": "constant"}
BATCHES = {"batch_size": 60, "batch_by": "tokens"}


def trained(made: ParseConfig, folder: Path) -> dict[str, float]:
    return ParseApplication().train(made, folder, SilentReporter()).scores


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
    ParseApplication().train(made, tmp_path / "run", SilentReporter())
    unseen = tmp_path / "unseen.conllu"
    write(unseen, generated(40, 2))
    report = ParseApplication().load(tmp_path / "run", "cpu").evaluate(unseen)
    assert report.scores["las"] > 0.97
    assert report.scores["uas"] > 0.97


def test_crossing_arcs_are_learned_or_lifted(tmp_path: Path) -> None:
    scores = {}
    for loss, trees in (("matrix_tree", "nonprojective"), ("eisner", "projective")):
        model = {**SMALL_MODEL, "loss": loss, "trees": trees}
        made = config(tmp_path, generated(60, 1, crossing=True), model=model, training=LEARNING, batches=BATCHES)
        scores[trees] = ParseApplication().train(made, tmp_path / trees, SilentReporter())
        report = ParseApplication().load(tmp_path / trees, "cpu").evaluate(tmp_path / "train.conllu")
        assert (report.scores["nonprojective_recall"] > 0.9) == (trees == "nonprojective")
        if trees == "projective":
            assert report.scores["nonprojective_recall"] == 0.0
            data = prepare(made, Randomness(0))
            assert any("60 sentences have crossing arcs, which are lifted" in line for line in data.lines)
            assert data.heads[0][-1] == 0 or data.heads[0][-1] == 2


def test_partial_annotation_is_learned(tmp_path: Path) -> None:
    sentences = generated(80, 1)
    partial = []
    for i, sentence in enumerate(sentences):
        rows = tuple(row if (i + j) % 2 else row._replace(head="_", deprel="_") for j, row in enumerate(sentence.rows))
        partial.append(type(sentence)(rows, (), sentence.place))
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

    def make() -> DependencyTask:
        randomness = Randomness(SEED)
        return DependencyApplication().task(made, prepare(made, randomness), torch.device("cpu"), randomness)

    killed_anywhere_ends_the_same(make, made.training, tmp_path, kills=[5])


def test_run_is_resumed_and_used_as_a_start(tmp_path: Path) -> None:
    made = config(tmp_path, generated(20, 1), training={"max_epochs": 2}, batches=BATCHES)
    first = ParseApplication().train(made, tmp_path / "run", SilentReporter())
    again = ParseApplication().resume(tmp_path / "run", SilentReporter())
    assert again.scores == first.scores
    later = ParseApplication().train(made, tmp_path / "later", SilentReporter(), start_from=tmp_path / "run")
    assert later.scores["las"] >= 0
    other = made.model_copy(update={"model": made.model.model_copy(update={"d_arc": 17})})
    with pytest.raises(CheckpointError, match="the model must have the options of the one in"):
        ParseApplication().train(other, tmp_path / "other", SilentReporter(), start_from=tmp_path / "run")


def test_relation_unknown_to_the_old_model_is_reported_with_its_line(tmp_path: Path) -> None:
    made = config(tmp_path, generated(10, 1), training={"max_epochs": 1}, batches=BATCHES)
    trained(made, tmp_path / "run")
    new = config(tmp_path, [conllu("we see", "2 0", "subjct root")], training={"max_epochs": 1}, batches=BATCHES)
    with pytest.raises(DataError, match=r"train\.conllu:1: 'subjct' is not one of the .* labels .* 'subject'"):
        ParseApplication().train(new, tmp_path / "new", SilentReporter(), start_from=tmp_path / "run")


# --- unusable data ----------------------------------------------------------------------------------------------------


def prepared(made: ParseConfig) -> Any:
    return prepare(made, Randomness(0))


def test_sentences_that_training_cannot_use_are_dropped_and_counted(tmp_path: Path) -> None:
    odd = [conllu("a b c", "_ _ _"), conllu("a " * 30, "0 " + "1 " * 29), conllu("we _ x", "2 0 _")]
    sentences = [*generated(6, 1), *odd]
    made = config(tmp_path, sentences, data={"train": [str(tmp_path / "train.conllu")], "max_length": 20})
    found = prepared(made)
    reasons = sorted(dropped.reason for dropped in found.tally.dropped)
    assert reasons == ["longer than max_length=20", "without any head"]
    assert any("read 9; used 7; dropped 2" in line for line in found.lines)
    model = {**SMALL_MODEL, "loss": "margin"}
    again = prepared(made.model_copy(update={"model": type(made.model).model_validate(model)}))
    assert "without all heads, which loss = margin needs" in {d.reason for d in again.tally.dropped}


def test_partial_crossing_arcs_are_dropped_only_for_eisner(tmp_path: Path) -> None:
    sentences = [*generated(6, 1), conllu("a b c d", "3 4 _ _")]
    data = {"train": [str(tmp_path / "train.conllu")]}
    for loss, trees, n in (("eisner", "projective", 1), ("matrix_tree", "nonprojective", 0)):
        model = {**SMALL_MODEL, "loss": loss, "trees": trees}
        assert len(prepared(config(tmp_path, sentences, model=model, data=data)).tally.dropped) == n


def test_invalid_trees_are_reported_with_file_and_line(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"train\.conllu:3: the heads form a cycle"):
        prepared(config(tmp_path, [conllu("a b c", "2 0 3")]))
    with pytest.raises(FormatError, match=r"train\.conllu:3: the sentence has 2 roots"):
        prepared(config(tmp_path, [conllu("a b c", "2 0 0")]))
    several = {**SMALL_MODEL, "single_root": False}
    data = {"train": [str(tmp_path / "train.conllu")]}
    both = [conllu("a b c", "2 0 0"), conllu("a b", "0 0")]
    assert len(prepared(config(tmp_path, both, model=several, data=data)).train) == 1
    with pytest.raises(FormatError, match=r"train\.conllu:2 must have a head from 0 to 3 or _, got '9'"):
        prepared(config(tmp_path, [conllu("a b c", "0 9 1")]))


def test_a_dev_file_needs_all_heads(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"train\.conllu:2: word 2 \('b'\) has no head"):
        prepared(config(tmp_path, [conllu("a b", "0 _")]))


def test_other_formats_and_empty_files_are_rejected(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("no trees at all\n", encoding="utf-8")
    made = config(tmp_path, generated(2, 1), data={"train": [str(text)]})
    with pytest.raises(FormatError, match=r"text\.txt looks like .*, but dependency trees are read from CoNLL-U"):
        prepared(made)
    text.write_text("", encoding="utf-8")
    with pytest.raises(FormatError, match=r"text\.txt is empty\. Pass a file with text\. Give a CoNLL-U file"):
        prepared(made)
    with pytest.raises(DataError, match="there is nothing to train on"):
        prepared(config(tmp_path, generated(2, 1), data={}))
    one = config(tmp_path, generated(1, 1), data={"train": [str(tmp_path / "train.conllu")]})
    with pytest.raises(DataError, match="left to learn from, which cannot be split into train and dev"):
        prepared(one)


def test_incompatible_options_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="loss = 'eisner' gives trees with crossing arcs the probability 0"):
        config(tmp_path, generated(2, 1), model={**SMALL_MODEL, "loss": "eisner"})
    for name in ("head", "deprel", "deps"):
        with pytest.raises(ConfigError, match=f"columns has '{name}', a column of the trees to predict"):
            config(tmp_path, generated(2, 1), model={**SMALL_MODEL, "words": {"columns": ["upos", name]}})
    with pytest.raises(
        ConfigError, match=r"training.metric = 'lass' is not a score of a parser of kind 'biaffine'.*'las'"
    ):
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
    found = prepared(config(tmp_path, generated(20, 1), data=data))
    rows = [set(part.tolist()) for part in (found.train, found.dev, found.test)]
    assert [len(part) for part in rows] == [12, 3, 5]
    assert set.union(*rows) == set(range(20))
    assert set(found.examples) == rows[1] | rows[2]


def test_word_columns_are_read(tmp_path: Path) -> None:
    words = {**SMALL_MODEL["words"], "columns": ["upos"]}  # type: ignore[dict-item]
    made = config(tmp_path, generated(10, 1), model={**SMALL_MODEL, "words": words}, training={"max_epochs": 1})
    trained(made, tmp_path / "run")
    predictor = ParseApplication().load(tmp_path / "run", "cpu")
    assert predictor.predict(generated(1, 1))[0].heads
    with pytest.raises(DataError, match="this parser reads upos of each word, which plain text does not have"):
        predictor.predict(["we see"])


def test_a_parser_starts_from_a_language_model(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("we see cats\nwe hear dogs know birds\n" * 10, encoding="utf-8")
    lm = {"kind": "lstm", "encoder": {"d": 12, "n_layers": 1}, "embedding": {"d": 8}}
    values = {
        "model": lm,
        "data": {"train": [str(text)]},
        "tokenizer": {"kind": "whitespace"},
        "batches": {"batch_size": 4, "length": 6},
        "training": {"max_steps": 3},
        "machine": {"device": "cpu"},
    }
    LmApplication().train(parse(LmConfig, values), tmp_path / "lm", SilentReporter())
    made = config(tmp_path, generated(10, 1), pretrained=str(tmp_path / "lm"), training={"max_epochs": 2})
    trained(made, tmp_path / "run")
    predictor = ParseApplication().load(tmp_path / "run", "cpu")
    assert isinstance(predictor, DependencyPredictor)
    assert predictor.parser.encoder.reader.context is not None
    assert predictor.predict(["we see cats"])[0].heads
    app, start = DependencyApplication(), open_pretrained(str(tmp_path / "lm"))
    adopted = app.adopted(made, start)
    task = app.task(adopted, app.prepare(adopted, Randomness(0), None, start), torch.device("cpu"), Randomness(0))
    app.start(task, start)
    (vectors,) = (w for w in task.parser.encoder.reader.embedding.parameters() if w.ndim == 2)
    theirs = open_checkpoint(tmp_path / "lm").weights().values()
    assert any(vectors.shape == w.shape and torch.equal(vectors, w) for w in theirs)
