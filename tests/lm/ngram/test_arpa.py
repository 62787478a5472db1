"""ARPA files: round trips, files of other tools, and errors with file and line."""

from __future__ import annotations

import gzip
import math

import numpy as np
import pytest
from hypothesis import given, settings

from catena.errors import DataError, FormatError
from catena.lm.ngram.model import NgramModel
from tests.lm.ngram.texts import orders, sentences, trained

TEXT = ["the dog ran away", "the dog ran home", "a cat ran", "", "犬 走る 🐕", "the <unk> sat"]
BACK_OFF = [
    "modified-kneser-ney", "kneser-ney", "katz", "witten-bell", "absolute-discounting", "stupid-backoff",
    "maximum-likelihood",
]  # fmt: skip

SMALL = """\
\\data\\
ngram 1=5
ngram 2=3
ngram 3=1

\\1-grams:
-1.0\t<unk>
0\t<s>\t-0.5
-0.7\t</s>
-0.4\ta\t-0.3
-0.6\tb\t-0.2

\\2-grams:
-0.1\t<s> a\t-0.25
-0.2\ta b\t0
-0.3\tb </s>

\\3-grams:
-0.05\t<s> a b

\\end\\
"""


def log10(model: NgramModel, sentence: str) -> float:
    return model.score([sentence])[0] / math.log(10)


@pytest.mark.parametrize("name", ["a.arpa", "a.arpa.gz"])
@pytest.mark.parametrize("estimator", BACK_OFF)
def test_arpa_round_trip(estimator, name, tmp_path):
    model = NgramModel.train(TEXT, order=3, estimator=estimator)
    model.save_arpa(tmp_path / name)
    again = NgramModel.load(tmp_path / name)
    assert again.vocabulary.symbols == model.vocabulary.symbols
    states, same = np.arange(model.packed.n_states), np.arange(again.packed.n_states)
    assert len(states) == len(same)
    wanted, found = model.packed.spread(states), again.packed.spread(same)
    assert (np.isneginf(found) == np.isneginf(wanted)).all()
    assert np.exp(found) == pytest.approx(np.exp(wanted), abs=1e-6)


@given(text=sentences, order=orders)
@settings(max_examples=20)
def test_arpa_round_trip_of_any_text(text, order, tmp_path_factory):
    path = tmp_path_factory.mktemp("arpa") / "a"
    model = trained(text, order)
    model.save_arpa(path)
    again = NgramModel.load(path)
    asked = ["a b c", "", "c c c c c", "a zebra b"]
    assert again.score(asked) == pytest.approx(model.score(asked), abs=1e-4)
    path.unlink()


def test_arpa_model_scores_by_backing_off(tmp_path):
    path = tmp_path / "a.arpa"
    path.write_text(SMALL)
    model = NgramModel.load(path)
    assert log10(model, "a b") == pytest.approx(-0.1 - 0.05 - 0.3, abs=1e-6)  # "a b" has no weight to pay
    assert log10(model, "b") == pytest.approx(-0.5 - 0.6 - 0.3, abs=1e-6)
    assert log10(model, "a a") == pytest.approx(-0.1 + (-0.25 - 0.3 - 0.4) + (-0.3 - 0.7), abs=1e-6)
    assert log10(model, "zebra") == pytest.approx((-0.5 - 1.0) + -0.7, abs=1e-6)


@pytest.mark.parametrize(
    "change", [("\t", " "), ("\n", "\r\n"), ("\n\n", "\n \n\n"), ("-0.25", "-2.5E-1"), ("<unk>", "<UNK>")]
)
def test_arpa_variants_of_other_tools_are_read(change, tmp_path):
    path = tmp_path / "a.arpa"
    path.write_text("\n" + SMALL.replace(*change), newline="")
    assert log10(NgramModel.load(path), "a a b zebra") == pytest.approx(
        -0.1 + (-0.25 - 0.3 - 0.4) + -0.2 + (0 - 0.2 - 1.0) + -0.7, abs=1e-6
    )


def test_arpa_missing_shorter_ngrams_are_filled_in(tmp_path):
    text = SMALL.replace("-0.2\ta b\t0\n", "").replace("ngram 2=3", "ngram 2=2")
    path = tmp_path / "a.arpa"
    path.write_text(text)
    model = NgramModel.load(path)
    assert log10(model, "a b") == pytest.approx(-0.1 - 0.05 - 0.3, abs=1e-6)
    assert log10(model, "b a b") == pytest.approx((-0.5 - 0.6) + (-0.2 - 0.4) + (-0.3 - 0.6) + -0.3, abs=1e-6)
    text = SMALL.replace("-0.1\t<s> a\t-0.25\n", "").replace("ngram 2=3", "ngram 2=2")
    path.write_text(text)
    assert log10(NgramModel.load(path), "a b") == pytest.approx((-0.5 - 0.4) - 0.05 - 0.3, abs=1e-6)


@pytest.mark.parametrize(
    ("old", "new", "line", "problem"),
    [
        ("ngram 1=5", "ngram 1=five", 2, "must be the number of n-grams"),
        ("ngram 2=3", "ngram 3=3", 3, "must be the number of 2-grams"),
        ("ngram 1=5", "ngram 1=4", 13, "ends 5 1-grams, but the header announces 4"),
        ("ngram 2=3", "ngram 2=4", 18, "ends 3 2-grams, but the header announces 4"),
        ("-0.4\ta", "x\ta", 10, "must be a logarithm, a word"),
        ("-0.4\ta", "nan\ta", 10, "contains nan"),
        ("-0.4\ta", "0.4\ta", 10, "above 0"),
        ("-0.6\tb\t-0.2", "-0.6\ta\t-0.2", 11, "lists the word 'a' a second time"),
        ("-0.2\ta b", "minus\ta b", 15, "must begin with a logarithm"),
        ("-0.2\ta b\t0", "-0.2\ta", 15, "has fewer words than its section requires"),
        ("-0.2\ta b", "-0.2\ta c", 15, "has a word that is not among the 1-grams"),
        ("-0.2\ta b", "0.2\ta b", 15, "above 0"),
        ("-0.2\ta b\t0", "-0.2\ta b\tx", 15, "must end after its words or with a back-off weight"),
        ("-0.2\ta b\t0", "-0.2\ta b\t0 0", 15, "has more fields after its back-off weight"),
        ("\\3-grams:", "\\4-grams:", 18, "must be \\\\3-grams:, the next heading"),
        ("\\end\\", "", 21, "is the last line, and"),
        ("\\end\\", "\\4-grams:", 21, "must be \\\\end\\\\, the next heading"),
    ],
)
def test_malformed_arpa_file_raises_with_line(old, new, line, problem, tmp_path):
    path = tmp_path / "a.arpa"
    path.write_text(SMALL.replace(old, new, 1))
    with pytest.raises(FormatError, match=rf"a\.arpa:{line} .*{problem}"):
        NgramModel.load(path)


def test_arpa_duplicate_ngram_raises(tmp_path):
    path = tmp_path / "a.arpa"
    path.write_text(SMALL.replace("-0.3\tb </s>", "-0.3\ta b"))
    with pytest.raises(FormatError, match="lists the n-gram 'a b' twice"):
        NgramModel.load(path)


def test_truncated_compressed_arpa_file_raises(tmp_path):
    path = tmp_path / "a.arpa.gz"
    path.write_bytes(gzip.compress(SMALL.encode())[:-20])
    with pytest.raises(FormatError, match=r"The compressed data of .* is truncated"):
        NgramModel.load(path)


def test_write_arpa_of_unsupported_models_raises(tmp_path):
    with pytest.raises(DataError, match="does not back off"):
        NgramModel.train(TEXT, order=2, estimator="add-k").save_arpa(tmp_path / "a")
    from catena.data.vocabulary import Vocabulary
    from catena.lm.base import SPECIALS

    blank = NgramModel.train_ids([[4]], Vocabulary([" "], specials=SPECIALS), 2)
    with pytest.raises(DataError, match="must not contain whitespace in ARPA files, got ' '"):
        blank.save_arpa(tmp_path / "a")


def test_arpa_history_with_weight_but_without_words_backs_off(tmp_path):
    """It must not use the words of the adjacent history."""
    path = tmp_path / "a.arpa"
    text = SMALL.replace("-0.2\ta b\t0", "-0.2\ta b\t-0.7").replace("-0.3\tb </s>", "-0.3\tb b\t-0.9")
    path.write_text(text.replace("-0.05\t<s> a b", "-0.05\tb b a"))
    model = NgramModel.load(path)
    assert log10(model, "a b a") == pytest.approx(-0.1 + (-0.25 - 0.2) + (-0.7 - 0.2 - 0.4) + (-0.3 - 0.7), abs=1e-6)
    assert log10(model, "b b a") == pytest.approx((-0.5 - 0.6) - 0.3 - 0.05 + (-0.3 - 0.7), abs=1e-6)
    model.save(tmp_path / "b")
    assert NgramModel.load(tmp_path / "b").score(["a b a"]) == model.score(["a b a"])
