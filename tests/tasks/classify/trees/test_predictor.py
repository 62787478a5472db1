"""A trained classifier of trees: predictions for trees and texts, output formats, evaluation, pictures."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import catena
from catena.data.readers.brackets import parse, read, to_text
from catena.errors import ConfigError, DataError, FormatError
from catena.tasks.application import PredictOptions
from catena.tasks.classify.application import ClassifyApplication
from catena.tasks.classify.estimator import TextClassifier
from catena.tasks.classify.trees.predictor import TreeClassifierPredictor
from catena.training.report import SilentReporter
from tests.laws.network_laws import the_network_answers
from tests.tasks.classify.trees.helpers import MODELS, TREEBANK, tree_config, treebank


def trained(folder: Path, model: str = "tree_lstm", **options: str) -> TreeClassifierPredictor:
    config = tree_config(folder, {**MODELS[model], **options}, training={"max_epochs": 25, "eval_every": 10_000})
    found = ClassifyApplication().train(config, folder / "run", SilentReporter())
    assert found.test_scores == pytest.approx(found.scores)
    return catena.load(found.folder, device="cpu")


@pytest.fixture(scope="module")
def predictor(tmp_path_factory: pytest.TempPathFactory) -> TreeClassifierPredictor:
    return trained(tmp_path_factory.mktemp("trees"))


TREE = "(x (x a) (x (x lovely) (x film)))"


def test_prediction_has_a_class_at_every_node(predictor: TreeClassifierPredictor) -> None:
    (found,) = predictor.predict([TREE])
    assert to_text(found.tree) == "(4 (2 a) (4 (4 lovely) (2 film)))"
    assert found.label == str(found) == "4"
    the_network_answers(predictor, [TREE])
    assert [label for label, _ in found.nodes] == ["4", "2", "4", "4", "2"]
    assert sum(found.probabilities.values()) == pytest.approx(1.0)
    assert found.probability == found.probabilities["4"] == max(found.probabilities.values())


def test_tree_and_its_brackets_give_the_same_prediction(predictor: TreeClassifierPredictor) -> None:
    a, b, c = predictor.predict([TREE, parse(TREE), TREE.replace("x ", "0 ")])
    assert to_text(a.tree) == to_text(b.tree) == to_text(c.tree)
    assert a.probabilities == pytest.approx(b.probabilities, abs=1e-5)
    assert a.probabilities == pytest.approx(c.probabilities, abs=1e-5)


def test_batch_stream_and_single_predictions_are_equal(predictor: TreeClassifierPredictor) -> None:
    items = TREEBANK.splitlines() * 2
    at_once = predictor.predict(items)
    for item, found in zip(items, at_once, strict=True):
        (alone,) = predictor.predict([item])
        assert to_text(alone.tree) == to_text(found.tree)
        assert [p for _, p in alone.nodes] == pytest.approx([p for _, p in found.nodes], abs=1e-5)
    assert [p.nodes for p in predictor.predict_stream(iter(items))] == [p.nodes for p in at_once]
    assert predictor.predict([]) == []


def test_text_without_a_tree_is_rejected(predictor: TreeClassifierPredictor, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="input:2 has no tree: 'a lovely film'; this model reads trees in brackets"):
        predictor.predict([TREE, "a lovely film"])
    with pytest.raises(DataError, match="has no trees; this model reads trees"):
        list(predictor.read_inputs(Path(treebank(tmp_path, "a lovely film\nit is bad\n", "plain.txt"))))
    with pytest.raises(FormatError, match="input:1:1 opens a tree that is not closed: 1 bracket is missing"):
        predictor.predict(["(x (x a) (x film)"])
    with pytest.raises(DataError, match="predict must get a list of trees"):
        predictor.predict(TREE)


def test_without_tree_right_reads_text_as_right_branching_tree(tmp_path: Path) -> None:
    predictor = trained(tmp_path, without_tree="right")
    text, tree = predictor.predict(["it is not bad", "(x (x it) (x (x is) (x (x not) (x bad))))"])
    assert text.probabilities == pytest.approx(tree.probabilities, abs=1e-5)
    assert to_text(text.tree) == to_text(tree.tree)
    assert list(predictor.read_inputs(Path(treebank(tmp_path, "it is bad\n", "plain.txt")))) == ["it is bad"]
    assert predictor.predict([""])[0].label in predictor.labels


def test_trees_of_standard_input_may_span_lines(predictor: TreeClassifierPredictor) -> None:
    lines = iter(["(x (x a)", "   (x film))", "(x (x a) (x film))"])
    assert [to_text(tree) for tree in predictor.items_of_lines(lines)] == ["(x (x a) (x film))"] * 2
    assert list(predictor.items_of_lines(iter(["a film", "(x film)"]))) == ["a film", "(x film)"]
    assert list(predictor.items_of_lines(iter([]))) == []
    with pytest.raises(FormatError, match="standard input:2 closes a bracket that was never opened"):
        list(predictor.items_of_lines(iter(["(x film)", ")"])))


def test_sentence_of_five_thousand_words_is_classified(predictor: TreeClassifierPredictor) -> None:
    text = "(x (x good) " * 4999 + "(x film)" + ")" * 4999
    (found,) = predictor.predict([text])
    assert len(found.nodes) == 9999
    assert len(predictor.write(found, text, "brackets").split()) == 9999 + 5000


def test_output_formats(predictor: TreeClassifierPredictor) -> None:
    (found,) = predictor.predict([TREE])
    assert predictor.write(found, TREE, "text") == "4"
    assert predictor.write(found, TREE, "brackets") == "(4 (2 a) (4 (4 lovely) (2 film)))"
    assert predictor.write(found, TREE, "tsv") == f"4\t{found.probability:.4f}\ta lovely film"
    row = json.loads(predictor.write(found, TREE, "jsonl"))
    assert row["text"] == "a lovely film"
    assert row["label"] == "4"
    assert row["tree"] == "(4 (2 a) (4 (4 lovely) (2 film)))"
    assert [label for label, _ in row["nodes"]] == ["4", "2", "4", "4", "2"]
    assert next(iter(row["probabilities"])) == "4"


def test_confidence_is_the_only_option(predictor: TreeClassifierPredictor) -> None:
    predictor.predict([TREE], PredictOptions(confidence=True))
    with pytest.raises(DataError, match="--n-best is not an option of"):
        predictor.predict([TREE], PredictOptions(n_best=2))


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


def test_evaluate_scores_roots_and_nodes(predictor: TreeClassifierPredictor, tmp_path: Path) -> None:
    path = Path(treebank(tmp_path))
    report = predictor.evaluate(path)
    trees = list(read(path))
    guesses = predictor.predict(trees)
    pairs = [
        (node.label, guess.label)  # type: ignore[attr-defined]
        for tree, found in zip(trees, guesses, strict=True)
        for node, guess in zip(_preorder(tree), _preorder(found.tree), strict=True)
    ]
    assert report.scores["node_accuracy"] == pytest.approx(np.mean([a == b for a, b in pairs]))
    roots = [(tree.label, found.label) for tree, found in zip(trees, guesses, strict=True)]
    assert report.scores["accuracy"] == pytest.approx(np.mean([a == b for a, b in roots]))
    assert report.signatures["accuracy"] == "accuracy|nodes:root|n=8"
    assert report.signatures["binary_accuracy"] == "accuracy|nodes:root|negative/positive|n=6"
    assert report.lines[0].startswith("read 8; used 8")
    answers = predictor.answers(path)
    assert answers.right == [(label,) for label, _ in roots]
    assert answers.given == [(label,) for _, label in roots]


def test_picture_marks_classes_that_differ(predictor: TreeClassifierPredictor) -> None:
    plain = predictor.picture(TREE)
    assert plain.svg.count(">4<") == 3
    assert "not in the reference" not in plain.svg
    wrong = predictor.picture("(1 (2 a) (4 (4 lovely) (2 film)))")
    assert wrong.svg.count("not in the reference") >= 1
    assert "lovely" in predictor.sketch(TREE)


def test_training_from_an_old_run_keeps_words_and_classes(tmp_path: Path) -> None:
    first = trained(tmp_path)
    more = treebank(tmp_path, "(3 (2 the) (3 (3 good) (2 plot)))\n(1 (2 the) (1 (1 bad) (2 plot)))\n", "more.txt")
    config = tree_config(tmp_path, MODELS["tree_lstm"], data={"train": [more]}, training={"max_epochs": 1})
    found = ClassifyApplication().train(config, tmp_path / "more", SilentReporter(), start_from=tmp_path / "run")
    second = catena.load(found.folder, device="cpu")
    assert second.labels == first.labels
    assert second.encoding.vocabulary == first.encoding.vocabulary


def test_word_vectors_are_read_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "vectors.txt").write_text("2 3\nlovely 1 2 3\nfilm 4 5 6\n", encoding="utf-8")
    embedding = {"d": 3, "mode": "static", "vectors": str(tmp_path / "vectors.txt")}
    config = tree_config(tmp_path, {**MODELS["tree_lstm"], "embedding": embedding}, training={"max_epochs": 1})
    found = ClassifyApplication().train(config, tmp_path / "run", SilentReporter())
    loaded = catena.load(found.folder, device="cpu")
    row = loaded.encoding.vocabulary.ids(["film"])[0]
    assert loaded.model.embedding.weight[row].tolist() == [4.0, 5.0, 6.0]


def test_describe_names_the_model(predictor: TreeClassifierPredictor) -> None:
    lines = predictor.describe(5)
    assert lines[0].startswith("a classifier of trees of kind tree_lstm: 5 classes")


def test_text_classifier_rejects_tree_models() -> None:
    with pytest.raises(ConfigError, match="got 'rntn', which reads trees"):
        TextClassifier("rntn").fit(["a", "b"], ["x", "y"])
