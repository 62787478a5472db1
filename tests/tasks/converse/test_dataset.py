"""Exchanges that are kept, dropped and split, and their ranking examples."""

from __future__ import annotations

from pathlib import Path

import pytest

from catena.data.dialogue import Exchange
from catena.data.examples import SourceLocation
from catena.errors import DataError, FormatError
from catena.metrics.ranking import RankCounts
from catena.tasks.converse.config import ConverseEvaluationConfig
from catena.tasks.converse.dataset import prepare
from catena.tasks.converse.questions import build_metric, build_ranking_examples, build_report, compute_scores
from tests.tasks.converse.helpers import config, write_pairs


def exchange(context: str, *responses: str, wrong: tuple[str, ...] = (), hard: tuple[str, ...] = ()) -> Exchange:
    return Exchange((context,), responses, SourceLocation("x", 1), wrong=wrong, hard=hard)


def test_counts_reconcile_and_contexts_are_truncated(tmp_path: Path) -> None:
    path = tmp_path / "x.tsv"
    path.write_text("a __eot__ b __eot__ c\td\n\tlost\nalone\t \nf\tg\nh\ti\n", encoding="utf-8")
    data = prepare(config(path, "bm25", data={"format": "pairs", "window": 2, "split": "end", "dev_fraction": 0.3}))
    assert [(e.context, e.responses) for e in data.train] == [(("b", "c"), ("d",)), (("f",), ("g",))]
    assert [e.context for e in data.dev] == [("h",)]
    assert data.tally.counts(3).dropped == {"with an empty context": 1, "with an empty response": 1}


def test_split_keeps_dialogues_together(tmp_path: Path) -> None:
    path = write_pairs(tmp_path / "x.tsv", 8)
    data = prepare(config(path, "bm25"))
    first = {e.context[0] for e in data.train}, {e.context[0] for e in data.dev}
    assert first[0]
    assert first[1]
    assert not first[0] & first[1]
    path.write_text("".join(reversed(path.read_text().splitlines(keepends=True))), encoding="utf-8")
    again = prepare(config(path, "bm25"))
    assert {e.context[0] for e in again.dev} == first[1]


def test_prepare_data_that_cannot_be_split_raises(tmp_path: Path) -> None:
    path = tmp_path / "x.tsv"
    path.write_text("a\tb\n", encoding="utf-8")
    with pytest.raises(DataError, match="1 exchange cannot be split"):
        prepare(config(path, "bm25"))
    path.write_text("hello\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"There are no responses. Use dialogues with at least two turns"):
        prepare(config(path, "bm25"))
    path.write_text("a\tb\na\tc\n", encoding="utf-8")
    with pytest.raises(DataError, match="All contexts have the same first turn"):
        prepare(config(path, "bm25"))
    assert len(prepare(config(path, "bm25", data={"split": "end"})).train) == 1
    path.write_text("context,response,label\na,b,0\nc,d,0\n", encoding="utf-8")
    with pytest.raises(DataError, match="no correct response in train"):
        prepare(config(path, "dual"))
    with pytest.raises(FormatError, match=r"Unknown data.format .* of conversations: did you mean"):
        prepare(config(path, "bm25", data={"format": "turn"}))


def test_inner_turns_are_in_training_but_not_in_evaluation(tmp_path: Path) -> None:
    path = tmp_path / "x.tsv"
    path.write_text("a __eot__ b __eot__ c\td\nx __eot__ y\tz\n", encoding="utf-8")
    data = prepare(config(path, "bm25", data={"inner_turns": True, "split": "end"}))
    assert len(data.train) == 1
    assert [(e.context, e.responses) for e in data.taught[1:]] == [(("a",), ("b",)), (("a", "b"), ("c",))]


def test_random_distractors_are_incorrect_distinct_and_reproducible() -> None:
    part = [exchange(f"c{i}", f"r{i}", f"s{i}", "same") for i in range(8)]
    settings = ConverseEvaluationConfig(candidates=5)
    groups = build_ranking_examples(part, settings, "pairs")
    assert [len(group) for group in groups] == [3] * 8
    for one, group in zip(part, groups, strict=True):
        for right, question in zip(one.responses, group, strict=True):
            assert question.candidates[0] == right
            assert len(set(question.candidates)) == 5
            assert not set(question.candidates[1:]) & set(one.responses)
    assert [q.candidates for g in build_ranking_examples(part, settings, "pairs") for q in g] == [
        q.candidates for g in groups for q in g
    ]
    other = build_ranking_examples(part, ConverseEvaluationConfig(candidates=5, seed=1), "pairs")
    assert [q.candidates for g in other for q in g] != [q.candidates for g in groups for q in g]


def test_given_and_hard_distractors() -> None:
    part = [exchange("c", "r", wrong=("w1", "w2"), hard=("h",)), exchange("only wrong", wrong=("w",))]
    assert build_ranking_examples(part, ConverseEvaluationConfig(), "distractors")[0][0].candidates == ("r", "w1", "w2")
    assert build_ranking_examples(part, ConverseEvaluationConfig(distractors="hard"), "responses")[0][0].candidates == (
        "r",
        "h",
    )
    with pytest.raises(DataError, match="x:1 has no distractors"):
        build_ranking_examples([exchange("c", "r")], ConverseEvaluationConfig(distractors="given"), "pairs")


def test_auto_uses_given_distractors_if_every_context_has_enough() -> None:
    part = [exchange(f"c{i}", f"r{i}", wrong=(f"v{i}", f"w{i}")) for i in range(4)]
    enough = ConverseEvaluationConfig(candidates=3)
    groups = build_ranking_examples(part, enough, "labeled")
    assert [group[0].candidates for group in groups] == [(f"r{i}", f"v{i}", f"w{i}") for i in range(4)]
    assert (
        "candidates:3|distractors:given" in build_report(groups, [[RankCounts(0, 0)]] * 4, enough, "labeled").lines[1]
    )
    for few, settings in ((part, ConverseEvaluationConfig(candidates=4)), ([*part, exchange("c", "r")], enough)):
        drawn = build_ranking_examples(few, settings, "labeled")
        assert {text[0] for group in drawn for text in group[0].candidates} == {"r"}
        assert (
            "distractors:random" in build_report(drawn, [[RankCounts(0, 0)]] * len(few), settings, "labeled").lines[1]
        )


def test_too_few_distractors_are_filled_up_or_raise() -> None:
    part = [exchange("a", "r"), exchange("b", "r")]
    with pytest.raises(DataError, match="the same responses"):
        build_ranking_examples(part, ConverseEvaluationConfig(), "pairs")
    groups = build_ranking_examples(part, ConverseEvaluationConfig(candidates=3), "pairs", ["x", "r", "y", "z"])
    assert all(len(group[0].candidates) == 3 and group[0].candidates[0] == "r" for group in groups)
    for seed in range(20):  # neither correct nor repeated
        groups = build_ranking_examples(
            part, ConverseEvaluationConfig(candidates=4, seed=seed), "pairs", ["x", "r", "y", "x", "z"]
        )
        assert [sorted(group[0].candidates[1:]) for group in groups] == [["x", "y", "z"]] * 2
    part = [exchange(f"c{i}", f"r{i}") for i in range(4)]  # exactly three distractors, the requested number
    groups = build_ranking_examples(part, ConverseEvaluationConfig(candidates=4), "pairs", ["more"])
    assert all(sorted(group[0].candidates) == ["r0", "r1", "r2", "r3"] for group in groups)


def test_report_signature_has_the_conditions() -> None:
    groups = build_ranking_examples(
        [exchange(f"c{i}", f"r{i}") for i in range(5)], ConverseEvaluationConfig(candidates=3), "pairs"
    )
    standings = [[RankCounts(0, 0)], [RankCounts(1, 0)], [RankCounts(0, 2)], [RankCounts(0, 0)], [RankCounts(2, 0)]]
    scores = compute_scores(groups, standings, ConverseEvaluationConfig())
    assert scores["recall@1"] == pytest.approx((1 + 0 + 1 / 3 + 1 + 0) / 5)
    report = build_report(groups, standings, ConverseEvaluationConfig(candidates=3), "pairs")
    assert (
        report.signatures["recall@1"] == "recall@1|ties:expected|candidates:3|distractors:random|questions:5|seed:0|n=5"
    )
    assert report.lines[0] == "5 contexts, 5 examples"
    assert list(compute_scores(groups, standings, ConverseEvaluationConfig(recall=(3, 1)))) == [
        "recall@3",
        "recall@1",
        "mrr",
    ]
    assert build_metric("recall@12", ConverseEvaluationConfig()).name == "recall@12|ties:expected"
    for name in ("recall@0", "recall", "precision@1"):
        with pytest.raises(DataError, match=f"Unknown ranking metric '{name}'"):
            build_metric(name, ConverseEvaluationConfig())
