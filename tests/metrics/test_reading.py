"""Exact match and F1 of answers: the rules of the SQuAD scripts, an independent count, and published predictions."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.errors import DataError
from catena.metrics import approximate_randomization
from catena.metrics.reading import (
    answer_f1,
    answer_f1_measure,
    answer_report,
    answer_units,
    exact_match,
    exact_match_measure,
    normalize_answer,
)
from tests.oracle import reading as oracle


@pytest.mark.parametrize(
    ("text", "normalized"),
    [
        ("The Eiffel-Tower!", "eiffeltower"),
        ("an  apple\ta\nday", "apple day"),
        ("A.", ""),  # punctuation goes before articles
        ("the-a", "thea"),
        ("theater", "theater"),
        ("1965–66", "1965–66"),
        ("“a” b", "“ ” b"),
        ("", ""),
    ],
)
def test_normalize_answer_follows_the_official_order(text: str, normalized: str) -> None:
    assert normalize_answer(text) == normalized


words = st.lists(st.sampled_from(["the", "b", "B.", "c", "A-", "–"]), max_size=5).map(" ".join)
answers = st.text(alphabet="ab theTHE.-–", max_size=12) | words


@given(st.lists(answers, min_size=1, max_size=3), answers)
def test_scores_of_version_one_equal_the_oracle(references: list[str], prediction: str) -> None:
    wanted = [oracle.words(text) for text in references]
    found = oracle.words(prediction)
    assert exact_match([references], [prediction], "1.1") == max(float(w == found) for w in wanted)
    best = max(oracle.f1(w, found) for w in wanted)
    assert answer_f1([references], [prediction], "1.1") == pytest.approx(best, abs=1e-12)


@given(st.lists(answers, max_size=3), answers)
def test_scores_of_version_two_equal_the_oracle(references: list[str], prediction: str) -> None:
    wanted = [w for w in map(oracle.words, references) if w]
    found = oracle.words(prediction)
    if wanted:
        exact, f1 = max(float(w == found) for w in wanted), max(oracle.f1(w, found) for w in wanted)
    else:
        exact = f1 = float(found == [])
    assert exact_match([references], [prediction]) == exact
    assert answer_f1([references], [prediction]) == pytest.approx(f1, abs=1e-12)


def test_versions_differ_on_empty_texts() -> None:
    assert answer_f1([["the"]], [""], "1.1") == 0
    assert answer_f1([["the"]], [""], "2.0") == 1
    assert answer_f1([["the", "cat"]], [""], "2.0") == 0
    assert exact_match([["the"]], [""], "1.1") == 1


def test_missing_prediction_counts_zero() -> None:
    assert exact_match([[], ["x"]], [None, "x"]) == 0.5
    assert answer_f1([["the"]], [None], "2.0") == 0
    assert exact_match([[]], ["x"], "1.1") == 0


@pytest.mark.parametrize(
    ("text", "units"),
    [
        ("范廷颂是1919年,在 Hà Nội出生。", [*"范廷颂是", "1919", "年", "在", "hà", "nội", *"出生"]),
        ("カ゚ー「東京」", ["カ゚", "ー", "東", "京"]),
        ("𠀀𠀁!", ["𠀀", "𠀁"]),
        ("……", []),
    ],
)
def test_characters_are_units_of_chinese_and_japanese(text: str, units: list[str]) -> None:
    assert answer_units(text, "characters") == units


def test_character_f1_counts_characters() -> None:
    assert answer_f1([["北京大学"]], ["北京"], unit="characters") == pytest.approx(2 * 2 / 6)
    assert answer_f1([["北京大学"]], ["北京"]) == 0
    assert exact_match([["北京。"]], ["北京"], unit="characters") == 1


def test_report_separates_questions_without_answer() -> None:
    report = answer_report([["a b", "c d"], ["e"], [], []], ["c", "", "", "x"])
    assert report.n == 4
    assert (report.n_answerable, report.n_unanswerable) == (2, 2)
    assert report.answerable_f1 == pytest.approx((2 / 3) / 2)
    assert report.unanswerable_accuracy == 0.5
    assert report.exact_match == 0.25
    assert report.f1 == pytest.approx((2 / 3 + 1) / 4)
    assert answer_report([["a"]], ["b"]).unanswerable_accuracy == 0


def test_measures_work_in_significance_tests() -> None:
    references = [["red"], ["blue"], ["green"], []] * 5
    better, worse = ["red", "blue", "green", ""] * 5, ["red", "x", "y", "z"] * 5
    measure = answer_f1_measure()
    rows = [measure.statistics(references, texts) for texts in (better, worse)]
    result = approximate_randomization(*rows, measure.score, np.random.default_rng(0), metric=measure.name)
    assert result.difference == pytest.approx(0.75)
    assert result.p_value < 0.01
    assert "squad:2.0" in exact_match_measure()(references, better).signature


def test_numbers_of_references_and_predictions_must_agree() -> None:
    with pytest.raises(DataError, match="exact_match needs one prediction for each reference, got 1"):
        exact_match([["a"]], [])


# --- published predictions --------------------------------------------------------------------------------------------

V1 = {
    "logistic_regression_baseline": (40.1419, 50.9815),
    "matchlstm_with_ansptr": (67.6348, 76.7556),
    "slqaplus": (81.9489, 88.3839),
    "rnetplus": (82.4693, 88.4779),
    "bert": (86.2062, 92.1956),
}
V2 = {
    "bidaf_plus_self_attention_plus_elmo": (65.7037, 67.8765, 61.4204, 65.7722, 69.9748),
    "nlnet": (75.8275, 78.7778, 69.6188, 75.5277, 82.0185),
    "bert": (78.7417, 81.7753, 74.1059, 80.1818, 83.3642),
}


def questions(path: Path) -> dict[str, list[str]]:
    data = json.loads(path.read_text(encoding="utf-8"))["data"]
    found = (qa for article in data for paragraph in article["paragraphs"] for qa in paragraph["qas"])
    return {qa["id"]: [answer["text"] for answer in qa["answers"]] for qa in found}


@pytest.mark.parametrize("name", V1)
def test_published_predictions_of_version_one_get_the_official_figures(real_data: Path, name: str) -> None:
    folder = real_data / "squad_small"
    gold = questions(folder / "dev-v1.1.json")
    given = json.loads((folder / "predictions" / f"v1_{name}.json").read_text(encoding="utf-8"))
    predictions = [given.get(key) for key in gold]
    report = answer_report(list(gold.values()), predictions, "1.1")
    assert len(gold) == 10_570
    assert (round(100 * report.exact_match, 4), round(100 * report.f1, 4)) == V1[name]


@pytest.mark.parametrize("name", V2)
def test_published_predictions_of_version_two_get_the_official_figures(real_data: Path, name: str) -> None:
    folder = real_data / "squad_small"
    gold = questions(folder / "dev-v2.0.json")
    given = json.loads((folder / "predictions" / f"v2_{name}.json").read_text(encoding="utf-8"))
    r = answer_report(list(gold.values()), [given.get(key) for key in gold], "2.0")
    assert (r.n, r.n_unanswerable) == (11_873, 5_945)
    figures = (r.exact_match, r.f1, r.answerable_exact_match, r.answerable_f1, r.unanswerable_accuracy)
    assert tuple(round(100 * figure, 4) for figure in figures) == V2[name]
