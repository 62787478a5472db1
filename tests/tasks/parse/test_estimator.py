"""The parser as an estimator: trees or words and heads in, trees out, saved and loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import catena
from catena.data.readers.brackets import to_text
from catena.errors import ConfigError, DataError
from catena.tasks.parse.estimator import Parser
from tests.tasks.parse.constituency.banks import trees
from tests.tasks.parse.dependency.helpers import conllu, generated

SMALL: dict[str, Any] = {"d_arc": 16, "d_relation": 8, "max_epochs": 20, "learning_rate": 0.02, "threads": 1}


def pairs(n: int, seed: int) -> tuple[list[list[str]], list[tuple[list[int], list[str]]]]:
    """Words, and heads with relations, of generated sentences."""
    sentences = generated(n, seed)
    words = [[word.form for word in one.words] for one in sentences]
    return words, [([int(w.head) for w in one.words], [w.deprel for w in one.words]) for one in sentences]


def test_dependencies_are_fitted_from_words_heads_and_relations(tmp_path: Path) -> None:
    x, y = pairs(40, 1)
    parser = Parser("biaffine", d=16, batch_size=60, **SMALL).fit(x, y)
    assert parser.score(*pairs(10, 2)) > 0.8
    assert parser.score(generated(10, 2)) == parser.score(*pairs(10, 2))
    best = parser.predict(["we see cats"], n_best=2)[0]
    assert best.heads == best.n_best[0].heads
    parser.save(tmp_path / "model")
    again = catena.load(tmp_path / "model", "cpu")
    assert isinstance(again, Parser)
    assert [p.heads for p in again.predict(x[:5])] == [p.heads for p in parser.predict(x[:5])]
    assert "<svg" in parser.plot("we see cats").svg


def test_brackets_are_fitted_from_texts_and_trees() -> None:
    bank = trees(60, longest=10)
    parser = Parser("pcfg", rare=0).fit([to_text(tree) for tree in bank])
    assert parser.score(trees(10, seed=5, longest=10)) > 0.7
    assert parser.evaluate(bank).scores()["f1"] > 0.8
    (found,) = parser.predict(["the dog sees a cat"])
    assert found.tree.words() == ("the", "dog", "sees", "a", "cat")


def test_trees_of_another_kind_raise() -> None:
    with pytest.raises(
        DataError, match=r"tree 1 must be a ConlluSentence for model 'biaffine', got Tree.*model='span'"
    ):
        Parser("biaffine").fit(list(trees(2, longest=8)))
    with pytest.raises(DataError, match="tree 2 must be a Tree for model 'pcfg', got ConlluSentence"):
        Parser("pcfg").fit([trees(1, longest=8)[0], conllu("a b", "2 0")])
    with pytest.raises(DataError, match="tree 1 cannot be used: it is one with only a word"):
        Parser("pcfg").fit(["(N dog)"])
    with pytest.raises(DataError, match="tree 2 cannot be used: it is one with a cycle of heads"):
        Parser("biaffine").fit([["a", "b"]] * 2, [([2, 0], ["x", "y"]), ([2, 1], ["x", "y"])])
    with pytest.raises(DataError, match="heads must be from 0 to 2, the number of words, got 3"):
        Parser("biaffine").fit([["a", "b"]], [([3, 0], ["x", "y"])])
    with pytest.raises(ConfigError, match="Parser has no option 'los'"):
        Parser(los="eisner")


@pytest.mark.parametrize("tree", [3, [0, 1], ([2, 0], ["nsubj"]), ([2], ["root"]), ([2, 0],)])
def test_trees_that_do_not_fit_their_words_are_an_error(tree: object) -> None:
    with pytest.raises(DataError, match="tree 2 must be the heads and the relations of its words"):
        Parser("biaffine").fit([["cats", "sleep"]] * 2, [([2, 0], ["nsubj", "root"]), tree])
    with pytest.raises(DataError, match=r"y must have one tree per sentence \(2\), got 1"):
        Parser("biaffine").fit([["cats", "sleep"]] * 2, [([2, 0], ["nsubj", "root"])])
