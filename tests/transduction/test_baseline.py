"""Baseline rules."""

from __future__ import annotations

from pathlib import Path

import pytest

from catena.errors import CheckpointError
from catena.transduction.base import Link
from catena.transduction.baseline import Baseline, _longest_shared
from catena.transduction.config import BaselineConfig

FORMS = [("walk", "walked"), ("talk", "talked"), ("jump", "jumped"), ("love", "loved"), ("move", "moved"),
         ("try", "tried"), ("cry", "cried")]  # fmt: skip


def answer(baseline: Baseline, word: str) -> str:
    return "".join(baseline.search_all([word])[0][0].tokens)


def test_copy_returns_source() -> None:
    copying = Baseline.train([], BaselineConfig(method="copy"))
    assert answer(copying, "abc") == "abc"


def test_frequent_uses_most_frequent_piece() -> None:
    pairs = [("ab", "xy"), ("ba", "yx"), ("aab", "xxy"), ("bb", "yz"), ("bab", "yxy")]
    frequent = Baseline.train(pairs, BaselineConfig(method="frequent"))
    assert answer(frequent, "abba?") == "xyyx"


def test_script_uses_longest_matching_ending() -> None:
    scripts = Baseline.train(FORMS, BaselineConfig(method="script"))
    assert [answer(scripts, word) for word in ("stalk", "prove", "fry")] == ["stalked", "proved", "fried"]
    assert scripts.search_all(["fry"])[0][0].alignment[-1] == Link(("r", "y"), ("r", "i", "e", "d"))


def test_scripts_change_beginnings() -> None:
    scripts = Baseline.train([("lesen", "gelesen"), ("geben", "gegeben")], BaselineConfig(method="script"))
    assert answer(scripts, "leben") == "geleben"


def test_longest_common_substring() -> None:
    assert _longest_shared(tuple("xxabcd"), tuple("yabcz")) == (2, 1, 3)
    assert _longest_shared(tuple("ab"), tuple("cd")) == (0, 0, 0)


def test_baseline_has_no_probability_and_loads_back(tmp_path: Path) -> None:
    scripts = Baseline.train(FORMS, BaselineConfig(method="script"))
    assert scripts.search_all(["fry"])[0][0].log_prob is None
    scripts.save(tmp_path)
    again = Baseline.load(tmp_path, scripts.settings)
    assert (again.ends, again.beginnings) == (scripts.ends, scripts.beginnings)
    (tmp_path / "rules.json").write_text("[]", encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"rules\.json is damaged"):
        Baseline.load(tmp_path, scripts.settings)
