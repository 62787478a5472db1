"""Accuracies at roots and at all nodes, in all classes and in two, counted by hand."""

from __future__ import annotations

import numpy as np
import pytest

from catena.data.vocabulary import Labels
from catena.errors import ConfigError
from catena.tasks.classify.trees.predict import PolarityClasses, TreeEvaluation, polarity_classes

STANFORD = Labels(["0", "1", "2", "3", "4"])
ROWS = [  # gold class, is a root, probabilities of the five classes
    (4, True, [0.0, 0.0, 0.1, 0.2, 0.7]),  # correct in both
    (3, False, [0.0, 0.0, 0.1, 0.2, 0.7]),  # wrong of five, correct of two
    (1, True, [0.2, 0.1, 0.6, 0.05, 0.05]),  # neutral is the best of five, but negative is above positive
    (0, False, [0.1, 0.1, 0.1, 0.3, 0.4]),  # wrong in both
    (2, True, [0.1, 0.1, 0.6, 0.1, 0.1]),  # correct of five, not counted of two
    (1, False, [0.0, 0.3, 0.4, 0.3, 0.0]),  # a tie of two sides goes to the first
    (1, False, [0.25, 0.25, 0.1, 0.4, 0.0]),  # the best class is positive, but negative is above positive
]


def evaluation(sides: PolarityClasses | None, roots: bool = True) -> TreeEvaluation:
    log_probs = np.log(np.array([row[2] for row in ROWS]) + 1e-300)
    gold = [(STANFORD.names[label],) for label, _, _ in ROWS]
    return TreeEvaluation(STANFORD.names, log_probs, gold, np.array([row[1] and roots for row in ROWS]), sides)


def test_four_accuracies() -> None:
    result = evaluation(polarity_classes((), STANFORD))
    scores = result.scores()
    assert scores["accuracy"] == pytest.approx(2 / 3)
    assert scores["node_accuracy"] == pytest.approx(2 / 7)
    assert scores["binary_accuracy"] == pytest.approx(2 / 2)
    assert scores["binary_node_accuracy"] == pytest.approx(5 / 6)
    assert result.signatures()["binary_node_accuracy"] == "accuracy|nodes:all|classes:2|n=6"
    assert result.lines()[0].startswith("accuracy 0.6667 (95 % interval")


def test_polarity_classes_from_config_or_stanford_or_none() -> None:
    assert polarity_classes((), Labels(["a", "b"])) is None
    assert "binary_accuracy" not in evaluation(None).scores()
    own = polarity_classes(("no=minus", "yes=plus", "never=minus"), Labels(["maybe", "never", "no", "yes"]))
    assert own is not None
    assert own.names == ("minus", "plus")
    assert own.classes == ((2, 1), (3,))
    with pytest.raises(ConfigError, match=r"evaluation.binary names the class 'yess', .* did you mean 'yes'"):
        polarity_classes(("yess=a", "no=b"), Labels(["no", "yes"]))


def test_scores_without_labeled_roots_count_only_nodes() -> None:
    without = evaluation(None, roots=False)
    assert set(without.scores()) == set(without.signatures()) == {"node_accuracy"}
    assert len(without.lines()) == 1
