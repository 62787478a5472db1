"""Weights of misspellings: compared with sums over edit scripts, and estimated from counted edits."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from catena.errors import ConfigError, FormatError
from catena.kernels.spelling.cpu import DELETE, INSERT, SUBSTITUTE, TRANSPOSE
from catena.niche.correction.config import EditRates
from catena.niche.correction.error_model import ErrorModel, latin_confusions, read_misspellings, single_edit
from tests.oracle.spelling import edit_distance, misspelling_weight

KINDS = {"insert": INSERT, "delete": DELETE, "substitute": SUBSTITUTE, "transpose": TRANSPOSE}
FIRST = 0.25


def weight_of(model: ErrorModel) -> Callable[[str, str, int, str], float]:
    """The weight of an edit, looked up in the tables, with edits of the first character made rarer."""

    def number(c: str) -> int:
        return model.characters.index(c) + 2 if c in model.characters else 1

    def weight(kind: str, word: str, i: int, written: str) -> float:
        if kind == "copy":
            return 1.0
        before = number(word[i - 1]) if i else 0
        own = number(word[i]) if i < len(word) else 0
        pair = {
            "insert": (before, number(written[:1])),
            "delete": (before, own),
            "substitute": (own, number(written[:1])),
            "transpose": (own, number(word[i + 1]) if i + 1 < len(word) else 0),
        }[kind]
        return float(model.tables[KINDS[kind]][pair]) * (FIRST if i == 0 else 1.0)

    return weight


def random_model(seed: int) -> ErrorModel:
    return ErrorModel("abc", np.random.default_rng(seed).random((4, 5, 5)))


@pytest.mark.parametrize("observed", ["ab", "ba", "cab", "zab", "", "aabb"])
def test_log_weights_equal_sums_over_scripts(observed: str) -> None:
    model, true = random_model(1), ["ab", "a", "bca", "zb", "abzab"]
    expected = [misspelling_weight(word, observed, weight_of(model)) for word in true]
    assert np.exp(model.log_weights(observed, true)).tolist() == pytest.approx(expected, rel=1e-12)


def test_missing_double_letters_and_similar_sounds_are_more_probable() -> None:
    model = ErrorModel.from_rates()
    letter, later = model.log_weights("leter", ["letter", "lefter"])
    assert letter > later + 1
    vowel, consonant = model.log_weights("seperate", ["separate", "sexerate"])
    assert vowel > consonant + 1
    assert math.isclose(model.log_weights("receive", ["receive"])[0], 0.0, abs_tol=0.01)


def test_inserted_letters_are_as_frequent_as_in_words() -> None:
    model = ErrorModel.from_rates(words=["eel", "tree", "zebra"])
    e, z = (model.log_weights(f"b{c}t", ["bt"])[0] for c in "ez")
    assert math.exp(e - z) == pytest.approx(5, rel=0.05)


def test_tables_of_another_shape_raise() -> None:
    with pytest.raises(ConfigError, match=r"tables must have the shape \(4, 5, 5\) for 3 characters, got \(4, 3, 3\)"):
        ErrorModel("abc", np.ones((4, 3, 3)))


def test_rates_out_of_range_raise() -> None:
    with pytest.raises(ConfigError, match="rates must be from 0 to 1"):
        EditRates(insert=-0.1)


# --- estimation -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "right", "edit"),
    [
        ("lettter", "letter", (INSERT, "t", "t")),
        ("aletter", "letter", (INSERT, "", "a")),
        ("leter", "letter", (DELETE, "t", "t")),
        ("etter", "letter", (DELETE, "", "l")),
        ("litter", "letter", (SUBSTITUTE, "e", "i")),
        ("elttre", "letter", None),
        ("lettre", "letter", (TRANSPOSE, "e", "r")),
        ("letter", "letter", None),
        ("", "a", (DELETE, "", "a")),
        ("lottir", "letter", None),
    ],
)
def test_single_edit_is_found(wrong: str, right: str, edit: tuple[int, str, str] | None) -> None:
    assert single_edit(wrong, right) == edit


def test_single_edit_agrees_with_edit_distance() -> None:
    words = ["", "a", "b", "ab", "ba", "aab", "aba", "abba", "abab", "baab", "aabb"]
    for wrong in words:
        for right in words:
            assert (single_edit(wrong, right) is not None) == (edit_distance(wrong, right) == 1)


def test_estimated_weights_are_smoothed_relative_frequencies() -> None:
    prior = ErrorModel.from_rates(confusions={"a": ["b"], "b": ["a"]})
    pairs = [("ba", "ab")] * 3 + [("aab", "ab")] * 2 + [("b", "ab"), ("same", "same"), ("bxyz", "ab")]
    model = ErrorModel.estimate(pairs, prior)
    a, b = 2, 3
    possible = {(TRANSPOSE, a, b): 6, (INSERT, a, a): 6, (DELETE, 0, a): 6, (DELETE, a, b): 6, (DELETE, b, a): 0}
    counts = {(TRANSPOSE, a, b): 3, (INSERT, a, a): 2, (DELETE, 0, a): 1, (DELETE, a, b): 0, (DELETE, b, a): 0}
    expected_errors = 6 * (
        prior.tables[DELETE, 0, a]
        + prior.tables[DELETE, a, b]
        + prior.tables[TRANSPOSE, a, b]
        + prior.tables[INSERT, [0, a, b]].sum()
        + prior.tables[SUBSTITUTE, [a, b]].sum()
    )
    for where, n in possible.items():
        scaled = counts[where] * expected_errors / 6
        assert model.tables[where] == pytest.approx((scaled + 100 * prior.tables[where]) / (n + 100), rel=1e-12)


def test_estimate_without_pairs_is_the_prior() -> None:
    prior = random_model(2)
    assert ErrorModel.estimate([("same", "same")], prior) is prior


def test_estimated_model_prefers_the_errors_it_has_seen() -> None:
    before, after = ErrorModel.from_rates(), ErrorModel.estimate([("adres", "adress"), ("kof", "koff")] * 50)
    assert after.log_weights("pas", ["pass"])[0] > before.log_weights("pas", ["pass"])[0]


def test_confusions_are_symmetric() -> None:
    confusions = latin_confusions()
    assert all(a in confusions[b] for a, others in confusions.items() for b in others)
    assert {"s", "w"} < set(confusions["a"])  # neighbors on the keyboard
    assert "m" not in confusions["a"]


def test_read_pairs(tmp_path: Path) -> None:
    path = tmp_path / "errors.tsv"
    path.write_text("teh\tthe\n\nrecieve\treceive\n", encoding="utf-8")
    assert read_misspellings(path) == [("teh", "the"), ("recieve", "receive")]
    path.write_text("teh\tthe\nrecieve\n", encoding="utf-8")
    with pytest.raises(FormatError, match=r"errors.tsv:2 must be a misspelled word, a tab and the correct word"):
        read_misspellings(path)
