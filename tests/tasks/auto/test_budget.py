"""The time of a search: what is kept for the test set and for training again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from catena.tasks.auto.budget import Budget
from catena.tasks.auto.record import SearchRecord, Trial


def budget(trial: Trial | None = None, *, dev_fraction: float = 0.2, n_test: int = 0, can_refit: bool = True) -> Budget:
    trials = [] if trial is None else [trial]
    return Budget(
        SearchRecord("tag", 100.0, 1000, 200, trials=trials, dev_fraction=dev_fraction, n_test=n_test), can_refit
    )


def network(best_step: int, speed: float = 10.0) -> Trial:
    return Trial(
        "a",
        "",
        {},
        "trained",
        30.0,
        1.0,
        300,
        best_step,
        {"f1": 0.5},
        "f1",
        is_network=True,
        speed=speed,
        evaluation=1.0,
    )


def counted(seconds: float, steps: int = 1, best_step: int = 1) -> Trial:
    return Trial("a", "", {}, "converged", seconds, 1.0, steps, best_step, {"f1": 0.5}, "f1")


def test_time_is_kept_only_for_what_training_again_needs() -> None:
    assert budget().for_training_again() == 40.0, "the best candidate is unknown"
    assert budget(counted(4.0)).for_training_again() == pytest.approx(3.0 + 1.3 * (1.0 + 4.0 / 0.8))
    half = counted(4.0, steps=8, best_step=4)
    assert budget(half).for_training_again() == pytest.approx(3.0 + 1.3 * (1.0 + 2.0 / 0.8))
    assert budget(network(40)).for_training_again() == pytest.approx(3.0 + 2 * 1.3 * (1.0 + 1.0 + 5.0))
    assert budget(network(120)).for_training_again() == 40.0


def test_time_is_kept_for_each_model_that_the_comparison_may_choose() -> None:
    trials = [replace(counted(8.0), name="slow"), replace(counted(1.0), name="fast", scores={"f1": 0.55})]
    record = SearchRecord("tag", 100.0, 1000, 200, trials=trials, dev_fraction=0.2)
    assert record.leader is trials[1]
    slow, fast = (3.0 + 1.3 * (1.0 + seconds / 0.8) for seconds in (8.0, 1.0))
    assert Budget(record, True, can_compare=True).for_training_again() == pytest.approx(slow)
    assert Budget(record, True, can_compare=False).for_training_again() == pytest.approx(fast)
    for name in ("slow", "fast"):
        record.trials.append(replace(counted(1.0), name=f"{name}-part1", varies=name, part=1, scores={"f1": 0.6}))
    assert Budget(record, True, can_compare=True).for_training_again() == pytest.approx(fast)


def test_no_time_is_kept_if_training_again_would_not_fit() -> None:
    assert budget(counted(60.0)).for_training_again() == 0.0
    assert budget(counted(4.0), can_refit=False).for_training_again() == 0.0
    assert budget(network(40), dev_fraction=0.1).for_training_again() == 0.0
    assert budget(counted(4.0), dev_fraction=0.1).for_training_again() > 0.0


def test_networks_take_more_steps_for_more_data() -> None:
    assert budget().steps_again(network(100), 1000.0) == 2 * 125
    assert budget().steps_again(counted(4.0, steps=8, best_step=6), 10.0) == 6, "each step sees all data"
    assert budget().steps_again(counted(4.0, steps=8, best_step=6), 3.0) == 0


def test_networks_that_would_overfit_are_not_trained_again_for_much_longer() -> None:
    done = replace(network(100), status="converged")
    assert budget().steps_again(done, 1000.0) == 2 * 125
    assert budget().steps_again(replace(done, varies="b"), 1000.0) == 125, "its rate fell to 0 before"
    kept = [budget(trial).for_training_again() for trial in (replace(done, varies="b"), done, network(100))]
    assert kept == sorted(kept)
    assert kept[0] < kept[-1]


@pytest.mark.parametrize("trial", [network(300, speed=1.0), replace(network(100, speed=1.0), status="converged")])
def test_networks_without_time_for_a_new_start_continue_on_all_data(trial: Trial) -> None:
    assert budget(trial).continues(trial, 40.0)
    assert budget(trial).for_training_again() == 40.0
    steps = 2 * trial.best_step / 0.8
    assert budget(trial).steps_again(trial, 40.0) == steps, "its rate falls with the time too"
    assert budget(trial).steps_again(trial, 15.0) == 0, "a higher rate for a short time would harm it"
    assert budget(trial, dev_fraction=0.1).steps_again(trial, 40.0) == 0


def test_converged_networks_start_again_if_there_is_time() -> None:
    done = replace(network(100), status="converged")
    assert not budget(done).continues(done, 40.0)
    assert budget(done).continues(done, 20.0)
    assert not budget(counted(4.0)).continues(counted(4.0), 1.0)


def test_evaluations_take_a_small_part_of_the_time() -> None:
    slow = replace(network(100), evaluation=4.0)
    assert budget().affordable(slow, 24.0) == (1, 200)
    assert budget().affordable(slow, 100.0) == (3, 880)
    assert budget().affordable(replace(slow, evaluation=0.1), 24.0) == (20, 220)


def test_time_for_the_test_set_grows_with_it_up_to_a_quarter() -> None:
    assert [budget(network(1), n_test=n).for_test() for n in (0, 1000, 100_000)] == [4.0, 20.0, 25.0]


def test_variations_of_networks_are_longer_because_their_rate_falls() -> None:
    assert budget().variation(network(100)) == (1.0 + 20 * 1.0 + 200 / 10, 200)
    assert budget().variation(counted(4.0)) == (5.0, None)


def test_number_of_variations_depends_on_the_time() -> None:
    assert [budget().number_of_variations(5.0, left, 2) for left in (4.0, 5.0, 24.0, 1000.0)] == [0, 2, 8, 16]


def test_time_for_the_test_set_of_a_model_without_gradient_steps_follows_its_time_on_dev() -> None:
    trial = replace(counted(4.0), evaluation=2.0)
    assert [budget(trial, n_test=n).for_test() for n in (0, 1000, 100_000)] == [4.0, 1.3 * 10.0, 25.0]
