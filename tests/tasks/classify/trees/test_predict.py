"""A trained classifier of trees: predictions for trees and texts, output formats, evaluation, pictures."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from catena.data.readers.brackets import parse, read, to_text
from catena.data.reading import ReadCounter
from catena.errors import ConfigError, DataError, FormatError
from catena.tasks.classify.config import ClassifyOptions
from catena.tasks.classify.estimator import TextClassifier
from catena.tasks.classify.trees.task import TreeTask
from catena.tasks.runs import load_task, train_run
from catena.tasks.writing import PredictionWriter
from catena.training.report import SilentReporter
from tests.laws.network_laws import the_network_answers
from tests.tasks.classify.helpers import evaluate
from tests.tasks.classify.trees.helpers import MODELS, TREEBANK, tree_config, treebank


def load(folder: Path) -> TreeTask:
    task = load_task(folder, "cpu")
    assert isinstance(task, TreeTask)
    return task


def written(prediction: Any, format: str) -> str:
    """The prediction in a format."""
    return "\n".join(PredictionWriter(format).lines(prediction))


def trained(folder: Path, model: str = "tree_lstm", **options: str) -> TreeTask:
    config = tree_config(folder, {**MODELS[model], **options}, training={"max_epochs": 25, "eval_every": 10_000})
    found = train_run(config, folder / "run", SilentReporter())
    assert found.test_scores == pytest.approx(found.scores)
    return load(found.folder)


@pytest.fixture(scope="module")
def predictor(tmp_path_factory: pytest.TempPathFactory) -> TreeTask:
    return trained(tmp_path_factory.mktemp("trees"))


TREE = "(x (x a) (x (x lovely) (x film)))"


def test_prediction_has_a_class_at_every_node(predictor: TreeTask) -> None:
    (found,) = predictor.predict([TREE])
    assert to_text(found.tree) == "(4 (2 a) (4 (4 lovely) (2 film)))"
    assert found.label == str(found) == "4"
    the_network_answers(predictor, [TREE], ClassifyOptions())
    assert [label for label, _ in found.nodes] == ["4", "2", "4", "4", "2"]
    assert sum(found.probabilities.values()) == pytest.approx(1.0)
    assert found.probability == found.probabilities["4"] == max(found.probabilities.values())


def test_tree_and_its_brackets_give_the_same_prediction(predictor: TreeTask) -> None:
    a, b, c = predictor.predict([TREE, parse(TREE), TREE.replace("x ", "0 ")])
    assert to_text(a.tree) == to_text(b.tree) == to_text(c.tree)
    assert a.probabilities == pytest.approx(b.probabilities, abs=1e-5)
    assert a.probabilities == pytest.approx(c.probabilities, abs=1e-5)


def test_batch_stream_and_single_predictions_are_equal(predictor: TreeTask) -> None:
    items = TREEBANK.splitlines() * 2
    at_once = predictor.predict(items)
    for item, found in zip(items, at_once, strict=True):
        (alone,) = predictor.predict([item])
        assert to_text(alone.tree) == to_text(found.tree)
        assert [p for _, p in alone.nodes] == pytest.approx([p for _, p in found.nodes], abs=1e-5)
    assert [p.nodes for p in predictor.predict_stream(iter(items))] == [p.nodes for p in at_once]
    assert predictor.predict([]) == []


def test_text_without_a_tree_is_rejected(predictor: TreeTask, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="input:1 has no tree: 'a lovely film'; this model reads trees in brackets"):
        predictor.predict([TREE, "a lovely film"])
    with pytest.raises(DataError, match=r"plain\.txt has no trees .*; this model reads trees"):
        list(predictor.read_inputs(Path(treebank(tmp_path, "a lovely film\nit is bad\n", "plain.txt")), ReadCounter()))
    with pytest.raises(FormatError, match="input:1:1 opens a tree that is not closed: 1 bracket is missing"):
        predictor.predict(["(x (x a) (x film)"])
    with pytest.raises(DataError, match="predict must get a list, got one text"):
        predictor.predict(TREE)


def test_without_tree_right_reads_text_as_right_branching_tree(tmp_path: Path) -> None:
    predictor = trained(tmp_path, without_tree="right")
    text, tree = predictor.predict(["it is not bad", "(x (x it) (x (x is) (x (x not) (x bad))))"])
    assert text.probabilities == pytest.approx(tree.probabilities, abs=1e-5)
    assert to_text(text.tree) == to_text(tree.tree)
    (plain,) = predictor.read_inputs(Path(treebank(tmp_path, "it is bad\n", "plain.txt")), ReadCounter())
    assert plain.words() == ("it", "is", "bad")
    assert predictor.predict([plain])[0].probabilities == pytest.approx(
        predictor.predict(["it is bad"])[0].probabilities
    )
    assert predictor.predict([""])[0].label in predictor.labels


def test_trees_of_a_file_may_span_lines(predictor: TreeTask, tmp_path: Path) -> None:
    path = Path(treebank(tmp_path, "(x (x a)\n   (x film))\n(x (x a) (x film))\n", "lines.txt"))
    assert [to_text(tree) for tree in predictor.read_inputs(path, ReadCounter())] == ["(x (x a) (x film))"] * 2


def test_sentence_of_five_thousand_words_is_classified(predictor: TreeTask) -> None:
    text = "(x (x good) " * 4999 + "(x film)" + ")" * 4999
    (found,) = predictor.predict([text])
    assert len(found.nodes) == 9999
    assert len(written(found, "brackets").split()) == 9999 + 5000


def test_output_formats(predictor: TreeTask) -> None:
    (found,) = predictor.predict([TREE])
    assert written(found, "text") == "4"
    assert written(found, "brackets") == "(4 (2 a) (4 (4 lovely) (2 film)))"
    assert written(found, "tsv") == f"4\t{found.probability:.4f}\ta lovely film"
    row = json.loads(written(found, "jsonl"))
    assert row["text"] == "a lovely film"
    assert row["label"] == "4"
    assert row["tree"] == "(4 (2 a) (4 (4 lovely) (2 film)))"
    assert [node["label"] for node in row["nodes"]] == ["4", "2", "4", "4", "2"]
    assert next(iter(row["probabilities"])) == "4"


def test_options_rank_and_limit_the_classes_of_the_root(predictor: TreeTask) -> None:
    (plain,) = predictor.predict([TREE])
    (found,) = predictor.predict([TREE], ClassifyOptions(n_best=2, scores=True))
    ranked = sorted(plain.probabilities.items(), key=lambda item: -item[1])[:2]
    text = "a lovely film"
    assert found.to_rows() == [
        {"label": label, "probability": p, "log_prob": math.log(p), "text": text} for label, p in ranked
    ]
    (none,) = predictor.predict([TREE], ClassifyOptions(threshold=1.0))
    assert (none.label, str(none), none.nodes) == (None, "", plain.nodes)


def test_nodes_of_a_chain_have_the_same_class_and_keep_their_shape(tmp_path: Path) -> None:
    predictor = trained(tmp_path, "rntn")
    (found,) = predictor.predict(["(S (NP (DT a)) (VP (X (V lovely)) (Y (Z film)) (W film)))"])
    labels = [label for label, _ in found.nodes]
    assert [node.label for node in _preorder(found.tree)] == labels
    assert labels[1] == labels[2]
    assert labels[4] == labels[5]
    assert labels[6] == labels[7]
    assert found.tree.words() == ("a", "lovely", "film", "film")
    assert len(found.tree.children[1].children) == 3


def _preorder(tree: object) -> list[object]:
    return [tree, *(node for child in tree.children for node in _preorder(child))]  # type: ignore[attr-defined]


def test_evaluate_scores_roots_and_nodes(predictor: TreeTask, tmp_path: Path) -> None:
    path = Path(treebank(tmp_path))
    report = evaluate(predictor, path)
    trees = list(read(path))
    guesses = predictor.predict(trees)
    pairs = [
        (node.label, guess.label)  # type: ignore[attr-defined]
        for tree, found in zip(trees, guesses, strict=True)
        for node, guess in zip(_preorder(tree), _preorder(found.tree), strict=True)
    ]
    assert report.scores()["node_accuracy"] == pytest.approx(np.mean([a == b for a, b in pairs]))
    roots = [(tree.label, found.label) for tree, found in zip(trees, guesses, strict=True)]
    assert report.scores()["accuracy"] == pytest.approx(np.mean([a == b for a, b in roots]))
    assert report.signatures()["accuracy"] == "accuracy|nodes:root|n=8"
    assert report.signatures()["binary_accuracy"] == "accuracy|nodes:root|classes:2|n=6"
    paired = report.paired("accuracy")
    assert paired.references == [label for label, _ in roots]
    assert paired.predictions == [label for _, label in roots]


def test_picture_marks_classes_that_differ(predictor: TreeTask) -> None:
    options = ClassifyOptions()
    plain = predictor.draw(predictor.to_example(TREE), options)
    assert plain.svg.count(">4<") == 3
    assert "not in the reference" not in plain.svg
    wrong = predictor.draw(predictor.to_example("(1 (2 a) (4 (4 lovely) (2 film)))"), options)
    assert wrong.svg.count("not in the reference") >= 1
    assert "lovely" in predictor.draw_text(predictor.to_example(TREE), options)


def test_training_from_an_old_run_keeps_words_and_classes(tmp_path: Path) -> None:
    first = trained(tmp_path)
    more = treebank(tmp_path, "(3 (2 the) (3 (3 good) (2 plot)))\n(1 (2 the) (1 (1 bad) (2 plot)))\n", "more.txt")
    config = tree_config(tmp_path, MODELS["tree_lstm"], data={"train": [more]}, training={"max_epochs": 1})
    found = train_run(config, tmp_path / "more", SilentReporter(), init_from=tmp_path / "run")
    second = load(found.folder)
    assert second.labels == first.labels
    assert second.words.vocabulary == first.words.vocabulary


def test_word_vectors_are_read_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "vectors.txt").write_text("2 3\nlovely 1 2 3\nfilm 4 5 6\n", encoding="utf-8")
    embedding = {"d": 3, "mode": "static", "vectors": str(tmp_path / "vectors.txt")}
    config = tree_config(tmp_path, {**MODELS["tree_lstm"], "embedding": embedding}, training={"max_epochs": 1})
    found = train_run(config, tmp_path / "run", SilentReporter())
    loaded = load(found.folder)
    row = loaded.words.vocabulary.ids(["film"])[0]
    assert loaded.model.embedding.weight[row].tolist() == [4.0, 5.0, 6.0]


def test_describe_names_the_model(predictor: TreeTask) -> None:
    lines = predictor.describe(5)
    assert lines[0].startswith("a classifier of trees of kind tree_lstm: 5 classes")


def test_text_classifier_rejects_tree_models() -> None:
    with pytest.raises(ConfigError, match="got 'rntn', which reads trees"):
        TextClassifier("rntn").fit(["a", "b"], ["x", "y"])
