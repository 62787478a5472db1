"""The training loop: updates, evaluations, checkpoints, limits, and undisturbed state."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from catena.checkpoint import open_checkpoint
from catena.errors import ConfigError, DataError, DivergedError
from catena.randomness import Randomness
from catena.training.config import TrainingConfig
from catena.training.loop import TrainingLoop, train
from catena.training.report import EvaluationDone, LinesReporter, Progress, RunResult, SilentReporter
from catena.training.run import RunFolder, create_run
from catena.training.task import Batch, BatchLoss, Evaluation
from tests.training.tiny import TinyTask


def go(task: TinyTask, run: RunFolder | None = None, seed: int = 0, **values: Any) -> RunResult:
    settings = TrainingConfig(**{"patience": 0, **values})
    return train(task, settings, run, Randomness(seed), SilentReporter())


def weights(task: TinyTask) -> dict[str, torch.Tensor]:
    found = {name: t.clone() for name, t in task.model.state_dict().items()}
    assert found
    return found


def new_run(path: Path) -> RunFolder:
    return create_run(path / "run", "", seed=0)


class Recorder(SilentReporter):
    def __init__(self) -> None:
        self.evaluations: list[EvaluationDone] = []
        self.progresses: list[Progress] = []

    def evaluated(self, event: EvaluationDone) -> None:
        self.evaluations.append(event)

    def progress(self, event: Progress) -> None:
        self.progresses.append(event)


# --- learning -------------------------------------------------------------------------------------------------


def test_loop_learns() -> None:
    task = TinyTask(dropout=0.0)
    with torch.no_grad():
        assert task.evaluate().scores["accuracy"] < 0.8
    outcome = go(task, max_epochs=40, learning_rate=0.05)
    assert outcome.score == 1.0
    task.model.eval()
    with torch.no_grad():
        assert task.evaluate().scores["accuracy"] == 1.0, "the model must have the best weights at the end"


def test_sgd_step_is_gradient_of_batch() -> None:
    task = TinyTask(dropout=0.0)
    ids, labels = task.epoch(1).batch(0)
    nn.functional.cross_entropy(task.model(ids), labels).backward()
    expected = {name: (p - 0.5 * p.grad).detach() for name, p in task.model.named_parameters()}  # type: ignore[operator]
    task.model.zero_grad()
    go(task, optimizer="sgd", learning_rate=0.5, max_steps=1, clip_norm=0)
    assert len(expected) > 0
    for name, value in expected.items():
        torch.testing.assert_close(weights(task)[name], value)


@pytest.mark.parametrize(("size", "accumulate"), [(4, 6), (8, 3), (5, 5)])
def test_accumulated_batches_equal_one_large_batch(size: int, accumulate: int) -> None:
    """22 examples in batches of 4, 8 or 5: the last batch is smaller and counts less."""
    large = TinyTask(seed=2, dropout=0.0, batch_size=22)
    small = TinyTask(seed=2, dropout=0.0, batch_size=size)
    for task, times in ((large, 1), (small, accumulate)):
        task.model.double()
        go(task, optimizer="sgd", learning_rate=0.5, max_epochs=3, accumulate=times, max_norm=0.5)
    for name, value in weights(large).items():
        torch.testing.assert_close(weights(small)[name], value, atol=1e-10, rtol=0)


@pytest.mark.parametrize("accumulate", [1, 4])
def test_before_step_gets_number_of_previous_steps(accumulate: int) -> None:
    class Told(TinyTask):
        def __init__(self) -> None:
            super().__init__()
            self.told: list[int | str] = []

        def before_step(self, step: int) -> None:
            self.told.append(step)

        def loss(self, batch: Batch) -> BatchLoss:
            self.told.append("loss")
            return super().loss(batch)

    task = Told()
    go(task, max_steps=3, accumulate=accumulate)
    batches = [["loss"] * n for n in ((1, 1, 1) if accumulate == 1 else (4, 2, 4))]
    assert task.told == [0, *batches[0], 1, *batches[1], 2, *batches[2]]


def test_epoch_ends_with_a_step_for_remaining_batches() -> None:
    recorder = Recorder()
    settings = TrainingConfig(max_epochs=2, accumulate=4, patience=0)
    train(TinyTask(), settings, None, Randomness(0), recorder)
    assert [event.progress.step for event in recorder.evaluations] == [2, 4]


def test_reported_loss_is_mean_since_last_evaluation() -> None:
    task = TinyTask(dropout=0.0, batch_size=4)
    plan = task.epoch(1)
    sums = [task.loss(plan.batch(i)).total.item() * len(plan.batch(i)[0]) for i in range(len(plan))]
    recorder = Recorder()
    settings = TrainingConfig(optimizer="sgd", learning_rate=1e-12, max_epochs=1)
    train(task, settings, None, Randomness(0), recorder)
    assert recorder.evaluations[0].progress.loss == pytest.approx(sum(sums) / 22, rel=1e-6)


def test_weights_depend_only_on_seed() -> None:
    first, second, third = TinyTask(), TinyTask(), TinyTask()
    torch.rand(7)  # the state of the global generator must not matter
    go(first, seed=1, max_epochs=2)
    go(second, seed=1, max_epochs=2)
    go(third, seed=2, max_epochs=2)
    name = "output.weight"
    assert torch.equal(weights(first)[name], weights(second)[name])
    assert not torch.equal(weights(first)[name], weights(third)[name]), "dropout must depend on the seed"


def test_evaluation_frequency_does_not_change_weights(tmp_path: Path) -> None:
    rare, often = TinyTask(), TinyTask()
    for name, task, every in (("rare", rare, 12), ("often", often, 1)):
        run = create_run(tmp_path / name, "", seed=0)
        go(task, run, max_steps=12, eval_every=every)
    one, two = (open_checkpoint(tmp_path / name / "last").weights() for name in ("rare", "often"))
    assert len(one) > 0
    for name in one:
        assert torch.equal(one[name], two[name]), name


def test_model_modes_in_training_and_evaluation() -> None:
    seen: list[tuple[str, bool, bool]] = []

    class Watching(TinyTask):
        def loss(self, batch: Batch) -> BatchLoss:
            seen.append(("loss", self.model.training, torch.is_grad_enabled()))
            return super().loss(batch)

        def evaluate(self) -> Evaluation:
            seen.append(("evaluate", self.model.training, torch.is_grad_enabled()))
            return super().evaluate()

    task = Watching()
    task.model.eval()
    go(task, max_steps=2, eval_every=1)
    assert seen == [("loss", True, True), ("evaluate", False, False)] * 2


def test_bf16_training_learns() -> None:
    assert go(TinyTask(dropout=0.0), max_epochs=30, learning_rate=0.05, precision="bf16").score > 0.9


# --- evaluations, limits --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "steps", "reason"),
    [
        ({"max_epochs": 2}, [6, 12], "max_epochs"),
        ({"max_steps": 8}, [6, 8], "max_steps"),
        ({"max_steps": 8, "eval_every": 3}, [3, 6, 8], "max_steps"),
        ({"max_epochs": 2, "max_steps": 6}, [6], "max_steps"),
        ({"max_epochs": 1, "eval_every": 100}, [6], "max_epochs"),
        ({"max_time": "0.000001s"}, [1], "max_time"),
    ],
)
def test_evaluation_steps_and_end(values: dict[str, Any], steps: list[int], reason: str) -> None:
    recorder = Recorder()
    outcome = train(TinyTask(), TrainingConfig(**values), None, Randomness(0), recorder)
    assert [event.progress.step for event in recorder.evaluations] == steps
    assert (outcome.reason, outcome.steps) == (reason, steps[-1])


def test_last_evaluation_fits_into_max_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step takes one second and an evaluation three: after the fourth step one just fits."""
    now = [0.0]
    monkeypatch.setattr("catena.training.report.time.monotonic", lambda: now[0])

    class Slow(TinyTask):
        def loss(self, batch: Batch) -> BatchLoss:
            now[0] += 1
            return super().loss(batch)

        def evaluate(self) -> Evaluation:
            now[0] += 3
            return super().evaluate()

    recorder = Recorder()
    settings = TrainingConfig(max_time="10s", eval_every=2, patience=0)
    outcome = train(Slow(), settings, None, Randomness(0), recorder)
    assert [event.progress.step for event in recorder.evaluations] == [2, 4]
    assert (outcome.reason, outcome.seconds) == ("max_time", 10.0)


def test_learning_rate_reaches_its_end_when_the_time_limit_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten steps of one second fit into the time, of the hundred that the schedule plans."""
    now = [0.0]
    monkeypatch.setattr("catena.training.report.time.monotonic", lambda: now[0])

    class Slow(TinyTask):
        def loss(self, batch: Batch) -> BatchLoss:
            now[0] += 1
            return super().loss(batch)

    recorder = Recorder()
    settings = TrainingConfig(learning_rate=1.0, max_time="10s", max_steps=100, schedule="linear", eval_every=5)
    outcome = train(Slow(), settings, None, Randomness(0), recorder)
    assert (outcome.reason, outcome.steps) == ("max_time", 10)
    assert [event.progress.rate for event in recorder.evaluations] == pytest.approx([0.5, 0.01], abs=0.02)


def test_ties_are_broken_by_second_score() -> None:
    class Coarse(TinyTask):
        ties = "other"
        others = (3.0, 2.0, 4.0, 1.0, float("nan"), 0.5)

        def evaluate(self) -> Evaluation:
            other = self.others[self.evaluations]
            found = super().evaluate()
            return Evaluation({**found.scores, "other": other})

    recorder = Recorder()
    task = Coarse(scores=[0.1, 0.1, 0.1, 0.2, 0.2, 0.1])
    train(task, TrainingConfig(patience=0, eval_every=1, max_steps=6), None, Randomness(0), recorder)
    assert [event.is_best for event in recorder.evaluations] == [True, True, False, True, False, False]


def test_patience_stops_and_restores_best() -> None:
    recorder = Recorder()
    task = TinyTask(scores=[0.1, 0.5, 0.5, 0.4, 0.3, 0.9])
    outcome = train(task, TrainingConfig(patience=3, eval_every=1), None, Randomness(0), recorder)
    assert outcome.reason == "patience"
    assert [event.is_best for event in recorder.evaluations] == [True, True, False, False, False]
    assert (outcome.best_step, outcome.score, outcome.steps) == (2, 0.5, 5)
    again = TinyTask()
    go(again, max_steps=2)
    for name, value in weights(again).items():
        assert torch.equal(weights(task)[name], value), "equal scores must not replace the first best"


@pytest.mark.parametrize(("higher", "stop_at", "steps"), [(True, 0.6, 3), (False, 0.3, 2), (True, 0.9, 4)])
def test_stop_at_ends_run_when_metric_reaches_value(
    monkeypatch: pytest.MonkeyPatch, higher: bool, stop_at: float, steps: int
) -> None:
    task = TinyTask(scores=[0.5, 0.3, 0.6, 0.7])
    monkeypatch.setattr(task, "higher_is_better", lambda metric: higher)
    outcome = train(
        task,
        TrainingConfig(patience=0, eval_every=1, max_steps=4, stop_at=stop_at),
        None,
        Randomness(0),
        SilentReporter(),
    )
    assert (outcome.reason, outcome.steps) == ("max_steps" if steps == 4 else "stop_at", steps)


def test_metric_with_lower_is_better() -> None:
    task = TinyTask()
    outcome = go(task, metric="loss", eval_every=1, max_steps=6, learning_rate=0.05)
    recorder = Recorder()
    train(
        TinyTask(),
        TrainingConfig(metric="loss", eval_every=1, max_steps=6, learning_rate=0.05),
        None,
        Randomness(0),
        recorder,
    )
    assert outcome.score == min(event.scores["loss"] for event in recorder.evaluations)


def test_unknown_metric_raises_error_with_suggestion() -> None:
    with pytest.raises(ConfigError, match=r"metric is 'acuracy', which is not a score of the task: did you mean 'acc"):
        go(TinyTask(), metric="acuracy", max_steps=1)


def test_data_without_batches_raises_error() -> None:
    with pytest.raises(DataError, match=r"Epoch 1 has no batches"):
        go(TinyTask(examples=0))


def test_plateau_lowers_learning_rate(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    values = {"schedule": "plateau", "plateau_patience": 1, "eval_every": 1, "max_steps": 4, "learning_rate": 0.8}
    go(TinyTask(scores=[0.5, 0.4, 0.4, 0.6]), run, **values)
    assert [row["learning_rate"] for row in run.metrics()] == pytest.approx([0.8, 0.8, 0.4, 0.2])


# --- divergence -----------------------------------------------------------------------------------------------


class Diverging(TinyTask):
    """The loss is nan at step 9, the third of the second epoch."""

    calls = 0

    def loss(self, batch: Batch) -> BatchLoss:
        self.calls += 1
        output = super().loss(batch)
        return BatchLoss(output.total * math.nan, output.items, output.tokens) if self.calls == 9 else output


@pytest.mark.parametrize("reads_at_once", [True, False])
def test_nan_loss_raises_error_with_step_and_keeps_checkpoints(
    tmp_path: Path, reads_at_once: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a GPU losses are read later. The reported step must still be correct."""
    run = new_run(tmp_path)
    loop = TrainingLoop(Diverging(), TrainingConfig(max_epochs=3), run, Randomness(0), SilentReporter())
    if not reads_at_once:
        real = loop._read_losses
        monkeypatch.setattr(loop, "_read_losses", lambda: real() if loop.state.step % 6 == 0 else None)
    with pytest.raises(DivergedError, match=r"The loss became nan at step 9 \(epoch \d, learning rate 0\.001\)") as e:
        loop.run_from(None)
    assert "Lower --learning-rate" in str(e.value)
    assert "The checkpoint of step 6 was saved before." in str(e.value)
    assert open_checkpoint(run.path / "last").folder.name == "step-000006"


# --- checkpoints ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scores", "best"),
    [([0.0, 0.0], 1), ([-math.inf, 0.0], 2), ([math.nan, math.nan], 1), ([-5.0, -6.0], 1), ([0.0, 0.1], 2)],
)
def test_best_and_last_exist_after_first_evaluation(tmp_path: Path, scores: list[float], best: int) -> None:
    run = new_run(tmp_path)
    outcome = go(TinyTask(scores=scores), run, max_steps=2, eval_every=1)
    assert outcome.best == open_checkpoint(run.path / "best").folder == run.folder_of(best)
    assert open_checkpoint(run.path / "last").folder == run.folder_of(2)
    for line in (run.path / "metrics.jsonl").read_text().splitlines():
        json.loads(line, parse_constant=lambda constant: pytest.fail(f"{constant} is not JSON"))


def test_nan_score_is_never_better() -> None:
    recorder = Recorder()
    task = TinyTask(scores=[math.nan, math.nan, 0.1, math.nan, 0.2])
    train(task, TrainingConfig(eval_every=1, max_steps=5, patience=0), None, Randomness(0), recorder)
    assert [event.is_best for event in recorder.evaluations] == [True, False, True, False, True]


@pytest.mark.parametrize(
    ("values", "kept", "best"),
    [
        ({}, [2, 5], 2),
        ({"keep_last": 2}, [2, 4, 5], 2),
        ({"keep_best": 2}, [2, 3, 5], 2),
        ({"keep_best": 3, "keep_last": 3}, [2, 3, 4, 5], 2),
        ({"metric": "loss"}, None, None),
    ],
)
def test_old_checkpoints_are_removed(
    tmp_path: Path, values: dict[str, Any], kept: list[int] | None, best: int | None
) -> None:
    run = new_run(tmp_path)
    go(TinyTask(scores=[0.1, 0.9, 0.5, 0.2, 0.3]), run, eval_every=1, max_steps=5, **values)
    steps = [int(path.name[5:]) for path in sorted((run.path / "checkpoints").iterdir())]
    if kept is None:
        losses = {row["step"]: row["scores"]["loss"] for row in run.metrics()}
        kept, best = sorted({min(losses, key=losses.__getitem__), 5}), min(losses, key=losses.__getitem__)
    assert steps == kept
    assert run.best() == run.folder_of(best or 0)
    assert open_checkpoint(run.path / "last").folder == run.folder_of(5)


def test_save_every_writes_checkpoints_between_evaluations(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    go(TinyTask(), run, save_every=2, max_steps=7, eval_every=7, keep_last=9)
    assert sorted(p.name for p in (run.path / "checkpoints").iterdir()) == [f"step-00000{i}" for i in (2, 4, 6, 7)]


def test_checkpoint_is_complete(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    task = TinyTask()
    go(task, run, max_epochs=1)
    found = open_checkpoint(run.path)
    assert set(found.manifest["files"]) == {
        "config.toml",
        "labels/labels.json",
        "model.safetensors",
        "state.json",
        "training.safetensors",
    }
    fresh = TinyTask(seed=9)
    found.load_into(fresh.model)
    for name, value in weights(task).items():
        assert torch.equal(weights(fresh)[name], value)


def test_metrics_and_log_have_a_line_per_evaluation(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    lines: list[str] = []
    settings = TrainingConfig(max_epochs=2, patience=0)
    train(TinyTask(), settings, run, Randomness(0), LinesReporter(lines.append))
    rows = run.metrics()
    assert [(row["step"], row["epoch"], row["tokens"]) for row in rows] == [(6, 1, 110), (12, 2, 220)]
    assert rows[0]["best"] is True
    assert set(rows[0]["scores"]) == {"accuracy", "loss"}
    assert rows[1]["seconds"] >= rows[0]["seconds"] > 0
    assert (run.path / "log.txt").read_text(encoding="utf-8").splitlines() == lines


# --- averages -------------------------------------------------------------------------------------------------


def trail(steps: int) -> list[dict[str, torch.Tensor]]:
    """The current weights after each step."""
    found = []
    for n in range(1, steps + 1):
        task = TinyTask(scores=[float(i) for i in range(n)])
        go(task, max_steps=n, optimizer="sgd", learning_rate=0.5)
        found.append(weights(task))
    return found


def test_ema_is_saved_and_training_continues_from_current_weights(tmp_path: Path) -> None:
    start, plain = weights(TinyTask()), trail(4)
    expected = start["output.weight"].double()
    for n, after in enumerate(plain, start=1):
        decay = min(0.6, (1 + n) / (10 + n))
        expected = decay * expected + (1 - decay) * after["output.weight"].double()
    run = new_run(tmp_path)
    task = TinyTask(scores=[1.0, 2.0, 3.0, 4.0])
    go(task, run, max_steps=4, eval_every=1, optimizer="sgd", learning_rate=0.5, ema=0.6)
    saved = open_checkpoint(run.path / "last")
    torch.testing.assert_close(saved.weights()["output.weight"].double(), expected, atol=1e-6, rtol=0)
    assert torch.equal(saved.training()["own:output.weight"], plain[-1]["output.weight"])
    assert torch.equal(weights(task)["output.weight"], saved.weights()["output.weight"])


def test_mean_of_last_is_evaluated_and_saved(tmp_path: Path) -> None:
    plain = trail(4)
    expected = torch.stack([plain[i]["output.weight"] for i in (1, 2, 3)]).mean(0)
    run = new_run(tmp_path)
    seen: list[torch.Tensor] = []

    class Watching(TinyTask):
        def evaluate(self) -> Evaluation:
            seen.append(self.model.state_dict()["output.weight"].clone())
            return super().evaluate()

    task = Watching(scores=[1.0, 2.0, 3.0, 4.0])
    go(task, run, max_steps=4, eval_every=1, optimizer="sgd", learning_rate=0.5, average_last=3)
    saved = open_checkpoint(run.path / "last")
    torch.testing.assert_close(saved.weights()["output.weight"], expected)
    assert torch.equal(seen[0], plain[0]["output.weight"])
    assert torch.equal(seen[3], saved.weights()["output.weight"])


@pytest.mark.parametrize("averaging", [{"ema": 0.6}, {"average_last": 3}, {"triggered_average": 1}, {}])
def test_buffers_set_by_evaluation_are_saved_with_average(averaging: dict[str, Any], tmp_path: Path) -> None:
    task = TinyTask(scores=[1.0, 2.0, 1.5, 1.2, 3.0, 4.0])
    task.model.register_buffer("temperature", torch.ones(()))
    plain = task.evaluate
    fitted = iter([2.0, 3.0, 5.0, 7.0, 11.0, 13.0])

    def evaluate() -> Evaluation:
        task.model.get_buffer("temperature").fill_(next(fitted))
        return plain()

    task.evaluate = evaluate  # type: ignore[method-assign]
    run = new_run(tmp_path)
    go(task, run, max_steps=6, eval_every=1, optimizer="sgd", learning_rate=0.5, keep_last=6, **averaging)
    kept = [run.folder_of(step) for step in range(1, 7)]
    assert [open_checkpoint(folder).weights()["temperature"].item() for folder in kept] == [2, 3, 5, 7, 11, 13]


def test_best_average_is_kept_without_run() -> None:
    """The moving average changes after the best evaluation; the stored weights must not."""
    one, two = TinyTask(scores=[0.5, 0.9, 0.1, 0.1]), TinyTask(scores=[0.5, 0.9])
    go(one, max_steps=4, eval_every=1, ema=0.5)
    go(two, max_steps=2, eval_every=1, ema=0.5)
    assert torch.equal(weights(one)["output.weight"], weights(two)["output.weight"])
