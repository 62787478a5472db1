"""What metrics are given: tensors count as the numbers they hold, and what would be misread is refused."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from catena.errors import DataError
from catena.metrics.classification import accuracy, f1
from catena.metrics.edits import symbol_error, word_error
from catena.metrics.reading import answer_f1, answer_report, exact_match
from catena.metrics.rouge_scores import rouge
from catena.metrics.spans import F1, spans_of_tags
from catena.metrics.translation import bleu, chrf, ter

TENSORS = """
import numpy as np
import torch
from catena.metrics.classification import accuracy, f1
from catena.metrics.edits import edit_distance
from catena.metrics.translation import translation_measure

gold, found = torch.tensor([0, 1, 2, 1]), torch.tensor([0, 1, 1, 1])
print(accuracy(gold, found), f1(gold, found) == f1(gold.tolist(), found.tolist()))
print(edit_distance(gold, found[1:]), edit_distance(np.array([1, 2]), np.array([2])), edit_distance(gold[:0], found))
for compute in (lambda: f1(gold[None], found[None]), lambda: translation_measure("bleu")(["a", "b"], ["a", ["b"]])):
    try:
        compute()
    except Exception as error:
        print(error)
"""


def test_tensors_are_treated_like_arrays() -> None:
    pytest.importorskip("sacrebleu")
    # In a process of its own: in this one the types that signatures name are checked first.
    run = subprocess.run([sys.executable, "-c", TENSORS], capture_output=True, text=True, timeout=600, check=True)
    assert run.stdout.splitlines() == [
        "0.75 True",
        "2 1 4",
        "f1 needs one label for each example, got references of shape (1, 4). Pass a 1-d array.",
        "BLEU needs strings, got prediction 1 of type list. Join tokens by blanks, and pass a reference, or a tuple of "
        "references, for each prediction.",
    ]


def test_lists_of_tensors_hold_labels() -> None:
    gold, found = torch.tensor([0, 1, 2, 1]), torch.tensor([0, 1, 1, 1])
    assert f1(list(gold), list(found)) == f1(gold.tolist(), found.tolist()) == pytest.approx(0.6)
    assert accuracy(list(gold), found.tolist()) == 0.75


def test_string_as_references_raises_error() -> None:
    for metric, name in ((word_error, "word error"), (symbol_error, "symbol error")):
        with pytest.raises(
            DataError, match=rf"{name} needs a list of references .* the string 'cat' for example 1\. Write \['cat'\]"
        ):
            metric([["cut"], "cat"], ["cut", "cat"])
    assert symbol_error([["cat"]], ["cut"]) == pytest.approx(1 / 3)


def test_words_as_references_raise_error() -> None:
    """The words of one reference would be taken for references, and their letters for words."""
    said = [["the", "cat", "sat"]]
    for metric in (word_error, symbol_error):
        with pytest.raises(
            DataError, match=r"got strings: \['the', 'cat'\] for example 0\. Write \[\['the', 'cat'\]\]"
        ):
            metric([["the", "cat"]], said)
    assert symbol_error([[["the", "cat"]]], said) == 0.5


def test_answers_without_a_list_raise_error() -> None:
    for metric in (exact_match, answer_f1, answer_report):
        with pytest.raises(
            DataError, match=r"references must have a list of answers .* got 'a cat' for question 1\. Write"
        ):
            metric([["a dog"], "a cat"], ["dog", "cat"])


def test_one_text_for_a_list_and_unknown_rouge_raise_error() -> None:
    for metric in (bleu, chrf, ter):
        with pytest.raises(DataError, match=r"needs lists of texts, got one text\. Put"):
            metric("a cat", "a cat")
    assert bleu(["a b c d"], ["a b c d"]) == pytest.approx(100)
    for name in ("rougeL", "rouge_12", "rouge"):
        with pytest.raises(DataError, match=rf"name must be rouge_1, rouge_2 or rouge_l, got '{name}'\. Choose"):
            rouge(name, "a b", "a b")
    assert rouge("rouge_l", "a b", "a b") == 100


def test_tags_of_one_sentence_raise_error() -> None:
    with pytest.raises(DataError, match=r"sentence 0 must be a list of tags, got 'B-a'\. Pass a list of sentences"):
        spans_of_tags(["B-a", "I-a", "O"])


def test_tags_as_spans_raise_error() -> None:
    tags = [["B-a", "I-a", "O"]]
    with pytest.raises(DataError, match=r"got the tag 'B-a' in sentence 0\. Call spans_of_tags first"):
        F1(spans_of_tags(tags), tags)
    assert F1(spans_of_tags(tags), spans_of_tags(tags)) == 1
