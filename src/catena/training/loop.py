"""The training loop: batches, steps, evaluations, checkpoints. It sees a task only through its interface.

A run is a function of its task, config and seed. Everything due at a step (evaluation, checkpoint) is done before the
next step begins, and a checkpoint contains everything that the next step depends on. So a run that is killed at any
point and resumed ends with the same weights as an uninterrupted run.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from catena.checkpoint import Checkpoint, read_checkpoint
from catena.errors import ConfigError, DataError, DivergedError
from catena.randomness import Randomness
from catena.registry import did_you_mean
from catena.training.average import WeightMap, copies, using
from catena.training.config import TrainingConfig
from catena.training.device import Interruption, memory_advice
from catena.training.optimize import GradientUpdater, build_averaging, build_schedule
from catena.training.report import (
    Clock,
    EvaluationDone,
    LinesReporter,
    Progress,
    Reporter,
    ReporterGroup,
    RunResult,
    RunStarted,
)
from catena.training.run import RunFolder
from catena.training.state import (
    TrainingState,
    finite,
    is_better,
    preserve_rng,
    random_states,
    restore_random_states,
    steps_to_keep,
)
from catena.training.task import EpochPlan, Evaluation, Task


def train(
    task: Task,
    settings: TrainingConfig,
    run: RunFolder | None,
    randomness: Randomness,
    reporter: Reporter,
    *,
    save_start: bool = False,
) -> RunResult:
    """Train a task's model from the start and load the best weights into it.

    Args:
        task: the model, its data and its metric.
        settings: the training config.
        run: a new run folder to write into. With None, the best weights are kept in memory only.
        randomness: the source of randomness of training itself (dropout).
        reporter: receives all events.
        save_start: write a checkpoint before the first step, for initial weights that the seed does not reproduce,
            such as the weights of an older run.
    """
    return TrainingLoop(task, settings, run, randomness, reporter).run_from(None, save_start=save_start)


def resume(
    task: Task, settings: TrainingConfig, run: RunFolder, randomness: Randomness, reporter: Reporter
) -> RunResult:
    """Resume a run from its last complete checkpoint, or from the start if it has none yet."""
    loop = TrainingLoop(task, settings, run, randomness, reporter)
    threads = run.meta["threads"]
    if threads != torch.get_num_threads():
        loop.reporter.note(
            f"the run started with {threads} threads and continues with {torch.get_num_threads()}: its result "
            f"may differ in the last digits. To make it exact, set machine.threads = {threads} in its config.toml"
        )
    return loop.run_from(run.last(loop.reporter.note))


class TrainingLoop:
    """One run of one task, used through :func:`train` and :func:`resume`."""

    def __init__(
        self,
        task: Task,
        settings: TrainingConfig,
        run: RunFolder | None,
        randomness: Randomness,
        reporter: Reporter,
    ) -> None:
        self.task = task
        self.model = task.model
        self.settings = settings
        self.run = run
        self.randomness = randomness
        self.reporter = ReporterGroup([reporter, LinesReporter(run.log)]) if run else reporter
        self.metric = settings.metric or task.metric
        self.higher_is_better = task.higher_is_better(self.metric)
        self.device = model_device(self.model)
        self.updater = GradientUpdater(settings, self.model, self.device)
        self.averaging = build_averaging(settings, self.model)
        self.last_step = self._last_step()
        self.schedule = build_schedule(settings, self.last_step)
        self.state = TrainingState()
        self.best_weights: WeightMap | None = None
        self.losses: list[tuple[int, Tensor, int]] = []
        self.clock = Clock()
        self.max_seconds = settings.max_seconds
        self.saved_step = -1
        self.evaluation_seconds = 0.0

    # --- from start to end ----------------------------------------------------------------------------------

    def run_from(self, checkpoint: Checkpoint | None, save_start: bool = False) -> RunResult:
        """Train from a checkpoint, or from the start, to the end."""
        if checkpoint is None:
            self.randomness.seed_torch("training")
        else:
            with checkpoint.reading():
                self._restore(checkpoint)
        if self.run:
            self.run.cut_metrics(self.state.step)
            self.run.prune(self.state.kept)
        self.model.train()
        self.clock.start(self.state)
        try:
            self.reporter.started(self._started())
            if save_start:
                self._save()
            with Interruption() as interruption:
                reason = self._go(interruption)
            outcome = self._outcome(reason)
            self.reporter.finished(outcome)
        except KeyboardInterrupt:
            where = f": catena resume {self.run.path} continues from the last checkpoint" if self.run else ""
            self.reporter.note(f"stopped immediately{where}")
            raise
        finally:
            self.reporter.close()
        return outcome

    def _go(self, interruption: Interruption) -> str:
        state, settings = self.state, self.settings
        reason = self._limit() or self._out_of_patience() or self._reached()
        while not reason:
            plan = self._plan(state.epoch)
            while state.batch < len(plan) and not reason:
                self._step(plan)
                epoch_is_over = state.batch >= len(plan)
                if epoch_is_over:
                    state.epoch, state.batch = state.epoch + 1, 0
                reason = self._limit()
                every = settings.eval_every
                if reason or (state.step % every == 0 if every else epoch_is_over):
                    self._evaluate()
                    reason = reason or self._out_of_patience() or self._reached()
                    self._save()
                elif settings.save_every and state.step % settings.save_every == 0:
                    self._save()
                if interruption.requested and not reason:
                    reason = "interrupted"
                    if self.saved_step != state.step:
                        self._save()
                self._tell_progress()
                if epoch_is_over:
                    break
        return reason

    def _limit(self) -> str:
        state, settings = self.state, self.settings
        if settings.max_steps is not None and state.step >= settings.max_steps:
            return "max_steps"
        if settings.max_epochs is not None and state.epoch > settings.max_epochs:
            return "max_epochs"
        return "max_time" if state.step and self._elapsed() >= 1 else ""

    def _elapsed(self) -> float:
        """The elapsed fraction of the time limit, into which the last evaluation must fit too."""
        if self.max_seconds is None:
            return 0.0
        return (self.clock.seconds() + self.evaluation_seconds) / self.max_seconds  # as long as the previous one

    def _out_of_patience(self) -> str:
        patience = self.settings.patience
        return "patience" if patience and self.state.stale >= patience else ""

    def _reached(self) -> str:
        """Whether the best score so far is one to stop at."""
        stop_at, best = self.settings.stop_at, self.state.best_scores.get(self.metric)
        if stop_at is None or best is None:
            return ""
        return "stop_at" if (best >= stop_at if self.higher_is_better else best <= stop_at) else ""

    def _last_step(self) -> int | None:
        limits = [self.settings.max_steps]
        if self.settings.max_epochs is not None:
            steps_each = math.ceil(len(self._plan(1)) / self.settings.accumulate)
            limits.append(self.settings.max_epochs * steps_each)
        return min((limit for limit in limits if limit is not None), default=None)

    def _plan(self, epoch: int) -> EpochPlan:
        plan = self.task.epoch(epoch)
        if len(plan) == 0:
            raise DataError(f"Epoch {epoch} has no batches. Check that the training data is not empty.")
        return plan

    # --- one step -------------------------------------------------------------------------------------------

    def _step(self, plan: EpochPlan) -> None:
        """Compute the gradients of the next batches, weighted by their items, and take one step."""
        state = self.state
        self.task.before_step(state.step)
        first_items = items = 0
        for i in range(state.batch, min(state.batch + self.settings.accumulate, len(plan))):
            with memory_advice(self.task, "making a batch"):
                batch = plan.batch(i)
            with memory_advice(self.task, batch=batch):
                with self.updater.precision():
                    output = self.task.loss(batch)
                first_items = first_items or output.items
                alone = output.items == first_items
                self.updater.backward(output.total if alone else output.total * (output.items / first_items))
            items += output.items
            state.tokens += output.tokens
            self.losses.append((state.step + 1, output.total.detach(), output.items))
        state.batch = i + 1
        with memory_advice(self.task, "updating the weights"):
            # So far the gradients are a sum in which the first batch has weight 1. Make it a mean over all items.
            self.updater.step(self.schedule.rate(state.step + 1, self._elapsed()), weight=first_items / items)
        state.step += 1
        self.averaging.after_step()
        if self.device.type == "cpu":
            self._read_losses()

    def _read_losses(self) -> None:
        """Copy the losses from the device. Copying each one immediately would make every step wait."""
        if not self.losses:
            return
        values = torch.stack([loss for _, loss, _ in self.losses]).tolist()
        for (step, _, items), value in zip(self.losses, values, strict=True):
            if not math.isfinite(value):
                raise DivergedError(self._divergence(step, value))
            self.state.loss_sum += value * items
            self.state.loss_items += items
        self.losses.clear()

    def _divergence(self, step: int, value: float) -> str:
        rate = self.schedule.rate(step, self._elapsed())
        saved = max(self.state.kept, default=0)
        left = f" The checkpoint of step {saved} was saved before." if saved and self.run else ""
        return (
            f"The loss became {value} at step {step:,} (epoch {self.state.epoch}, learning rate {rate:.3g}): "
            f"training has diverged. Lower --learning-rate, clip the gradient with --clip-norm 1, or warm up "
            f"with --warmup-steps 500.{left}"
        )

    # --- evaluation -----------------------------------------------------------------------------------------

    def _evaluate(self) -> None:
        state = self.state
        self._read_losses()
        progress = self._progress()
        began = self.clock.seconds()
        self.averaging.before_evaluation()
        evaluation = self._scores()
        self.evaluation_seconds = self.clock.seconds() - began
        is_best = is_better(evaluation.scores, state.best_scores, self.metric, self.higher_is_better, self.task.ties)
        state.stale = 0 if is_best else state.stale + 1
        if is_best:
            state.best_step = state.step
            state.best_scores = finite(evaluation.scores)
            if self.run is None:
                self.best_weights = copies(self.averaging.weights() or self.model.state_dict())
        self.schedule.evaluated(is_best)
        self.averaging.evaluated(is_best)
        state.kept[state.step] = finite(evaluation.scores)[self.metric]
        if self.run:
            self.run.append_metrics(self._metrics_row(progress, evaluation, is_best))
        samples = tuple(evaluation.samples)
        self.reporter.evaluated(EvaluationDone(progress, dict(evaluation.scores), self.metric, is_best, samples))
        state.loss_sum, state.loss_items = 0.0, 0
        self.clock.mark(state.tokens)

    def _scores(self) -> Evaluation:
        with (
            preserve_rng(self.device),
            using(self.model, self.averaging.weights()) as fitted,
            evaluating(self.model),
            memory_advice(self.task, "evaluating"),
        ):
            self.randomness.seed_torch("evaluation", self.state.step)
            evaluation = self.task.evaluate()
        self.averaging.take(fitted)
        if self.metric not in evaluation.scores:
            raise ConfigError(
                f"training.metric is {self.metric!r}, which is not a score of the task: "
                f"{did_you_mean(self.metric, evaluation.scores)}"
            )
        return evaluation

    def _metrics_row(self, progress: Progress, evaluation: Evaluation, is_best: bool) -> dict[str, Any]:
        return {
            "step": progress.step,
            "epoch": progress.epoch,
            "loss": progress.loss,
            "learning_rate": progress.rate,
            "tokens": self.state.tokens,
            "scores": dict(evaluation.scores),
            "best": is_best,
            "seconds": round(self.clock.seconds(), 3),
        }

    # --- checkpoints ----------------------------------------------------------------------------------------

    def _save(self) -> None:
        state, run = self.state, self.run
        self._read_losses()
        state.seconds = self.clock.seconds()
        if run is None:
            return
        state.kept.setdefault(state.step, None)
        kept = steps_to_keep(state.kept, state.best_step, self.settings, self.higher_is_better)
        state.kept = {step: state.kept[step] for step in kept}
        state.plateau_reached = self.schedule.plateau.reached
        state.plateau_waited = self.schedule.plateau.waited
        average = self.averaging.weights()
        own = self.model.state_dict()
        groups = {
            "optimizer": self.updater.tensors(),
            "average": self.averaging.tensors(),
            "random": random_states(self.device),
            "own": own if average else {},
            "task": self.task.tensors(),
        }
        tensors = {f"{group}:{name}": t for group, named in groups.items() for name, t in named.items()}
        numbers = {"training": state.as_json(), "updater": self.updater.numbers()}
        run.write(state.step, average or own, self.task.save, tensors, numbers)
        if state.best_step == state.step:
            run.point_best(state.step)
        run.prune(state.kept)
        self.saved_step = state.step

    def _restore(self, checkpoint: Checkpoint) -> None:
        numbers, tensors = checkpoint.state(), checkpoint.training()
        groups: dict[str, dict[str, Tensor]] = {
            group: {} for group in ("optimizer", "average", "random", "own", "task")
        }
        for key, tensor in tensors.items():
            group, _, name = key.partition(":")
            groups[group][name] = tensor
        checkpoint.load_into(self.model)
        if groups["own"]:
            self.model.load_state_dict(groups["own"])
        self.updater.load(groups["optimizer"], numbers["updater"])
        self.averaging.load(groups["average"])
        self.task.restore(groups["task"])
        self.state = TrainingState.from_json(numbers["training"])
        self.schedule.plateau.reached = self.state.plateau_reached
        self.schedule.plateau.waited = self.state.plateau_waited
        restore_random_states(groups["random"], self.device)
        if self.run:
            self.run.point_back(self.state.step, self.state.best_step)

    # --- reports --------------------------------------------------------------------------------------------

    def _started(self) -> RunStarted:
        parameters = list(self.model.parameters())
        device = str(self.device)
        if self.device.type == "cpu":
            threads = torch.get_num_threads()
            device += f" ({threads} thread{'s' if threads != 1 else ''})"
        elif self.device.type == "cuda":
            device += f" ({torch.cuda.get_device_name(self.device)})"
        if self.updater.dtype is not None:
            device += f", {str(self.updater.dtype).removeprefix('torch.')}"
        return RunStarted(
            device=device,
            parameters=sum(p.numel() for p in parameters),
            trainable=sum(p.numel() for p in parameters if p.requires_grad),
            summary=tuple(self.task.summary()),
            steps=self.last_step,
            from_step=self.state.step,
            run=self.run.path if self.run else None,
            unit=self.task.unit,
        )

    def _tell_progress(self) -> None:
        if self.clock.progress_is_due():
            self._read_losses()
            if self.state.loss_items:  # right after an evaluation there is nothing to report
                self.reporter.progress(self._progress())

    def _progress(self) -> Progress:
        state = self.state
        return Progress(
            step=state.step,
            steps=self.last_step,
            epoch=state.epoch - (state.batch == 0 and state.epoch > 1),
            loss=state.loss_sum / state.loss_items if state.loss_items else math.nan,
            rate=self.schedule.rate(max(state.step, 1), self._elapsed()),
            tokens_per_second=self.clock.speed(state.tokens),
            seconds_left=self._seconds_left(),
        )

    def _seconds_left(self) -> float | None:
        spent = self.clock.seconds()
        left = []
        if self.last_step is not None and self.state.step:
            left.append(spent / self.state.step * (self.last_step - self.state.step))
        if self.max_seconds is not None:
            left.append(max(0.0, self.max_seconds - spent))
        return min(left, default=None)

    def _outcome(self, reason: str) -> RunResult:
        state, run = self.state, self.run
        best = run.best() if run and state.best_step >= 0 else None
        if reason != "interrupted" and state.best_step >= 0:
            if best is not None:
                read_checkpoint(best).load_into(self.model)
            elif self.best_weights is not None:
                self.model.load_state_dict(self.best_weights)
        return RunResult(
            reason=reason,
            steps=state.step,
            seconds=self.clock.seconds(),
            metric=self.metric,
            best_step=state.best_step if state.best_step >= 0 else None,
            scores={name: math.nan if s is None else s for name, s in state.best_scores.items()},
            best=best,
            last=run.folder_of(state.step) if run else None,
            run=run.path if run else None,
            what_next=self.task.what_next,
            higher_is_better=self.higher_is_better,
            evaluation_seconds=self.evaluation_seconds,
        )


def model_device(model: nn.Module) -> torch.device:
    """The device of a model's parameters."""
    for parameter in model.parameters():
        return parameter.device
    raise ConfigError("The model has no parameters to train. Choose a model with parameters.")


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Context of evaluation mode without gradients. Each module then returns to its previous mode."""
    modes = {module: module.training for module in model.modules()}
    try:
        model.eval()
        with torch.no_grad():
            yield
    finally:
        for module, mode in modes.items():
            module.training = mode
