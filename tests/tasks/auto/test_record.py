"""The record of a search: ranking, lines, files, and the division of the time."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from catena.errors import CheckpointError
from catena.tasks.auto.record import SearchRecord, Trial, plan_slices, read_record


def trial(name: str, score: float, metric: str = "accuracy", higher: bool = True) -> Trial:
    return Trial(name, "a model", {}, "trained", 3.0, 1.0, 10, 8, {metric: score}, metric, higher)


def test_leader_follows_the_direction_of_the_metric() -> None:
    assert SearchRecord("tag", 60.0, 9, 100, trials=[trial("a", 0.5), trial("b", 0.7)]).leader.name == "b"  # type: ignore[union-attr]
    low = [trial("a", 0.5, "perplexity", False), trial("b", 0.7, "perplexity", False)]
    assert SearchRecord("lm", 60.0, 9, 1, trials=low).leader.name == "a"  # type: ignore[union-attr]


def test_leader_of_equal_candidates_is_the_simpler_one() -> None:
    assert SearchRecord("tag", 60.0, 9, 1, trials=[trial("a", 0.5), trial("b", 0.5)]).leader.name == "a"  # type: ignore[union-attr]


@pytest.mark.parametrize("score", [math.nan, math.inf, -math.inf])
def test_scores_that_are_not_finite_never_lead(score: float) -> None:
    assert SearchRecord("tag", 60.0, 9, 1, trials=[trial("a", score), Trial("b", "", {})]).leader is None


def test_record_is_written_and_read(tmp_path: Path) -> None:
    record = SearchRecord(
        "tag", 60.0, 9, 1, ("catena", "train"), trials=[trial("a", 0.5), Trial("b", "x", {"seed": 1})]
    )
    record.write(tmp_path)
    assert read_record(tmp_path) == record
    assert read_record(tmp_path / "elsewhere") is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"trials": 1}', '{"trials": [{"x": 1}]}', "[" * 100_000])
def test_damaged_record_raises_one_sentence(text: str, tmp_path: Path) -> None:
    (tmp_path / "search.json").write_text(text, encoding="utf-8")
    with pytest.raises(CheckpointError, match=r"search\.json cannot be read.*Train the model again\."):
        read_record(tmp_path)


def test_lines_sort_by_score_and_explain_the_winner() -> None:
    failed = Trial("c", "x", {}, "failed", note="it needs more time")
    record = SearchRecord("tag", 60.0, 900, 90, trials=[trial("a", 0.5), trial("b", 0.75), failed, Trial("d", "y", {})])
    record.winner, record.refit = "b", True
    head, *lines, reason = record.lines()
    assert head == "search: 4 candidates in 0 of 60 s, 900 examples, compared on 90 dev examples"
    assert [line.split(":")[0].strip() for line in lines] == ["b", "a", "c", "d"]
    assert "failed (it needs more time)" in lines[2]
    assert reason == "chosen: b (a model), better than a by 0.2500 on dev; then trained again on train and dev"
    assert json.loads(json.dumps(record.lines())) == record.lines()


def test_rungs_keep_the_better_third_and_divide_the_time() -> None:
    assert plan_slices(100.0, 9, 1, (0.3, 0.2)) == [(9, pytest.approx(30 / 9)), (3, pytest.approx(20 / 3))]
    assert plan_slices(100.0, 9, 2, (0.3, 0.2)) == [(9, pytest.approx(30 / 5)), (3, pytest.approx(20 / 2))]
    assert plan_slices(100.0, 2, 2, (0.3, 0.2)) == [(2, pytest.approx(30))]
    assert plan_slices(100.0, 3, 2, (0.3, 0.2)) == [(3, pytest.approx(15))]


def network(name: str, score: float, metric: str = "accuracy", higher: bool = True) -> Trial:
    return replace(trial(name, score, metric, higher), is_network=True)


@pytest.mark.parametrize(("n_dev", "name"), [(100, "a"), (10_000, "b")])
def test_networks_lead_only_if_they_are_better_by_more_than_noise(n_dev: int, name: str) -> None:
    record = SearchRecord("tag", 60.0, 9, n_dev, trials=[trial("a", 0.90), network("b", 0.91)], winner="a")
    assert record.leader is not None
    assert record.leader.name == name
    reason = "chosen: a (a model), simpler than b, whose score is higher by only 0.0100"
    assert record.lines()[-1] == reason


def test_noise_is_known_for_fractions_and_between_networks_and_counted_models_only() -> None:
    def leader(*trials: Trial) -> str:
        found = SearchRecord("lm", 60.0, 9, 10, trials=list(trials)).leader
        return found.name if found else ""

    assert leader(trial("a", 9.0, "perplexity", False), network("b", 8.9, "perplexity", False)) == "b"
    assert leader(trial("a", 20.0), network("b", 20.09)) == "a", "half a hundredth is noise of other scores"
    assert leader(trial("a", 20.0), network("b", 20.11)) == "b"
    assert leader(network("a", 0.90), network("b", 0.91)) == "b"
    assert leader(network("a", 0.90), network("b", 0.91), trial("c", 0.5)) == "b"


def repeated(base: str, part: int, score: float) -> Trial:
    return replace(trial(f"{base}-part{part}", score), varies=base, part=part)


def test_candidates_are_compared_by_the_parts_that_all_of_them_have() -> None:
    trials = [trial("a", 0.5), trial("b", 0.6), trial("c", 0.9), repeated("a", 1, 0.8), repeated("b", 1, 0.5)]
    record = SearchRecord("tag", 60.0, 9, 1, trials=[*trials, repeated("a", 2, 0.1)])
    assert record.mean_ranks() == pytest.approx({"a": 0.65, "b": 0.55})
    assert record.leader is not None
    assert record.leader.name == "a", "c was not among the best that were compared"
    record.winner = "a"
    lines = record.lines()
    assert lines[0].startswith("search: 3 candidates")
    assert lines[-2] == "the best on 2 dev sets, parts of the data: a 0.6500, b 0.5500"
    assert lines[-1] == "chosen: a (a model), better than b by 0.1000 on dev"
    unfinished = SearchRecord("tag", 60.0, 9, 1, trials=[*trials[:3], repeated("a", 1, 0.8), Trial("b-part1", "", {}, varies="b", part=1)])  # fmt: skip  # noqa: E501
    assert unfinished.mean_ranks() == {}
    assert unfinished.leader is not None
    assert unfinished.leader.name == "c"


@pytest.mark.parametrize(("n_dev", "name"), [(100, "a"), (10_000, "a-001")])
def test_variations_lead_only_if_they_are_better_by_more_than_noise(n_dev: int, name: str) -> None:
    trials = [trial("a", 0.90), replace(trial("a-001", 0.91), varies="a"), replace(trial("a-002", 0.905), varies="a")]
    record = SearchRecord("classify", 60.0, 9, n_dev, trials=trials)
    assert record.leader is not None
    assert record.leader.name == name


def test_errors_have_the_noise_of_fractions_and_words_are_decisions() -> None:
    def leader(n_decisions: int) -> str:
        trials = [trial("a", 0.50, "word_error", False), network("b", 0.48, "word_error", False)]
        found = SearchRecord("tag", 60.0, 9, 100, trials=trials, n_decisions=n_decisions).leader
        return found.name if found else ""

    assert leader(100) == "a"
    assert leader(10_000) == "b"


@pytest.mark.parametrize(("n_dev", "name"), [(100, "a"), (100_000, "b")])
def test_other_models_lead_only_if_they_are_better_than_the_simplest_by_more_than_noise(n_dev: int, name: str) -> None:
    trials = [trial("a", 0.80), trial("b", 0.81), replace(trial("network", 0.8105), is_network=True)]
    record = SearchRecord("tag", 60.0, 900, n_dev, trials=trials)
    assert record.leader is not None
    assert record.leader.name == name
    assert replace(record, is_tuned=True).leader.name == "b"  # type: ignore[union-attr]


def test_finalists_are_different_models_first() -> None:
    variations = [replace(trial(f"a-{i}", 0.82 - i / 1000), varies="a") for i in range(5)]
    record = SearchRecord("tag", 60.0, 900, 200, trials=[trial("a", 0.81), trial("b", 0.80), *variations])
    assert [one.name for one in record.finalists()] == ["a-0", "a-1", "a-2", "b"]
    record.n_dev = 200_000
    assert [one.name for one in record.finalists()] == ["a-0", "a-1"], "others are clearly worse"


def test_networks_are_compared_last_except_the_leader() -> None:
    a, b, c = trial("a", 0.80), trial("b", 0.83), network("c", 0.82)
    record = SearchRecord("classify", 60.0, 900, 200, trials=[a, b, c])
    assert record.least_promising([b, c, a]) is c
    c.scores = {"accuracy": 0.9}
    assert record.leader is c
    assert record.least_promising([c, b, a]) is b
    worse = network("d", 0.81)
    record.trials.append(worse)
    assert record.least_promising([c, b, worse, a]) is worse


def test_close_candidates_that_have_converged_are_varied_once() -> None:
    a, b, far = (
        replace(trial(name, score), status="converged") for name, score in (("a", 0.8), ("b", 0.7), ("c", 0.3))
    )
    record = SearchRecord("tag", 60.0, 900, 200, trials=[b, a, far, trial("d", 0.7)])
    assert [one.name for one in record.to_vary()] == ["a", "b"]
    record.trials.append(replace(trial("a-1", 0.9), varies="a"))
    assert [one.name for one in record.to_vary()] == ["b"]
    a.status = "trained"
    assert record.to_vary() == []
