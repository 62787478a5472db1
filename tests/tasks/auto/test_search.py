"""The search with scripted candidates: halving, failures, interruption, resuming, training on all data.

A scripted worker answers immediately, so nothing depends on the clock. tests/cli/test_train.py uses processes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from multiprocessing import Pipe
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from catena.errors import CatenaError, CheckpointError
from catena.tasks.auto import search as module
from catena.tasks.auto import trials
from catena.tasks.auto.record import read_record
from catena.tasks.auto.search import continue_search, is_unfinished, search_model
from catena.tasks.auto.table import Candidate, DataSize, suitable
from catena.tasks.auto.trials import Conclusion, CountJob, Job, Outcome, Slice, Worker
from catena.tasks.spec import get_spec
from catena.training.device import Interruption


@dataclass
class Script:
    """Outcomes of candidates: a score for each, and the jobs that were done."""

    scores: dict[str, float]
    size: DataSize = field(default_factory=lambda: DataSize(1000, 0, 5000))
    on_slice: Callable[[Slice], None] = lambda job: None
    higher_is_better: bool = True
    converged: set[str] = field(default_factory=set)
    counted: set[str] = field(default_factory=set)
    lasts: dict[str, float] = field(default_factory=dict)
    """Seconds after which a candidate has converged."""
    evaluation: float = 0.0
    overfitted: set[str] = field(default_factory=set)
    """Candidates whose best step is in the middle of their training."""
    jobs: list[Job] = field(default_factory=list)
    now: float = 0.0
    """The clock."""
    clock_rate: ClassVar[float] = 0.5
    """The part of the time of each training by which it moves for each of its threads, of two in all."""

    def __call__(self, job: Job) -> Outcome | DataSize:
        self.jobs.append(job)
        if isinstance(job, CountJob):
            return self.size
        if isinstance(job, Conclusion):
            return Outcome("concluded", scores={"accuracy": 0.6})
        self.on_slice(job)
        name = job.folder.name
        before = [one.seconds for one in self.slices(name)[:-1]]
        seconds = min(job.seconds, self.lasts.get(name, job.seconds))
        self.now += (seconds - max(before, default=0.0)) * self.clock_rate * (job.threads or 1)
        if name not in self.scores and name != "again":
            return Outcome("failed", lines=("It diverged.",))
        job.folder.mkdir(parents=True, exist_ok=True)
        for file in ("config.toml", "meta.json", "log.txt"):
            (job.folder / file).write_text(name, encoding="utf-8")
        reason = "patience" if name in self.converged or seconds < job.seconds else "max_time"
        steps = round(10 * seconds)
        scores = {"accuracy": self.scores.get(name, 1.0)}
        is_network = name not in self.counted
        best = steps // 2 if name in self.overfitted else steps
        return Outcome(
            reason, steps, seconds, best, scores, "accuracy", self.higher_is_better, is_network, self.evaluation
        )

    def slices(self, name: str) -> list[Slice]:
        return [job for job in self.jobs if isinstance(job, Slice) and job.folder.name == name]


class ScriptedWorker(Worker):
    """A worker without a process, whose outcomes come from a script."""

    script: ClassVar[Script]

    def __init__(self) -> None:
        self.connection, self.other = Pipe()
        self.process = SimpleNamespace(is_alive=lambda: True)  # type: ignore[assignment]
        self.job: Job | None = None
        self.began = 0.0

    def start(self, job: Job) -> None:
        super().start(job)
        self.other.recv()
        self.other.send(self.script(job))

    def interrupt(self) -> None:
        pass

    def close(self) -> None:
        pass


def use(monkeypatch: pytest.MonkeyPatch, script: Script) -> Script:
    monkeypatch.setattr(ScriptedWorker, "script", script, raising=False)
    monkeypatch.setattr(Worker, "__new__", lambda cls: object.__new__(ScriptedWorker))
    for one in (module, trials):
        monkeypatch.setattr(one, "time", SimpleNamespace(monotonic=lambda: script.now))
    monkeypatch.setattr(module, "suitable", _four_candidates)
    monkeypatch.setattr(module.os, "getloadavg", lambda: (0.0, 0.0, 0.0), raising=False)
    return script


def _four_candidates(*arguments: Any) -> list[tuple[Candidate, dict[str, Any]]]:
    """One simple candidate and three networks."""
    return [one for one in suitable(*arguments) if one[0].name != "log-linear"]


def run(folder: Path, seconds: float = 1000.0, **values: Any) -> Any:
    lines: list[str] = []
    values = {"machine": {"threads": 2}, **values}
    return search_model(get_spec("classify"), values, folder, seconds, lines.append, command=("catena", "train"))


SCORES = {"tfidf": 0.7, "cnn": 0.8, "cnn-wide": 0.9, "gru": 0.6}


def test_best_candidate_becomes_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = use(monkeypatch, Script(SCORES, DataSize(5000, 300, 25_000)))
    result = run(tmp_path / "run")
    assert result.scores == {"accuracy": 0.9}
    assert result.test_scores == {"accuracy": 0.6}
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == [
        "config.toml", "log.txt", "meta.json", "search.json",
    ]  # fmt: skip
    assert (tmp_path / "run" / "meta.json").read_text() == "cnn-wide"
    record = read_record(tmp_path / "run")
    assert record is not None
    assert (record.winner, record.refit) == ("cnn-wide", False)
    assert "chosen: cnn-wide" in (tmp_path / "run" / "log.txt").read_text()
    assert len(script.slices("gru")) == 1, "the worse half is not resumed"
    assert len(script.slices("cnn-wide")) > 1


def test_worse_candidates_get_less_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = use(monkeypatch, Script(SCORES, DataSize(5000, 300, 25_000)))
    run(tmp_path / "run")
    longest = {name: max(job.seconds for job in script.slices(name)) for name in SCORES}
    assert longest["gru"] < longest["cnn"]
    last = script.slices("cnn-wide")[-1]
    assert last.steps is not None
    assert last.steps > 10 * script.slices("cnn-wide")[0].seconds
    assert 800 < script.now <= 1000, "the time is used and kept"


def test_lower_is_better_is_respected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, Script(SCORES, DataSize(5000, 300, 25_000), higher_is_better=False))
    assert run(tmp_path / "run").scores == {"accuracy": 0.6}


def test_converged_candidates_are_not_trained_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = use(monkeypatch, Script(SCORES, DataSize(5000, 300, 25_000), converged={"cnn-wide"}))
    assert run(tmp_path / "run").scores == {"accuracy": 0.9}
    assert len(script.slices("cnn-wide")) == 1


def test_failing_candidates_do_not_end_the_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, Script({"tfidf": 0.5}, DataSize(5000, 300, 25_000)))
    assert run(tmp_path / "run").scores == {"accuracy": 0.5}
    record = read_record(tmp_path / "run")
    assert record is not None
    assert {trial.name for trial in record.trials if trial.note == "It diverged."} == {"cnn", "cnn-wide", "gru"}


def test_no_candidate_raises_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, Script({}, DataSize(5000, 300, 25_000)))
    with pytest.raises(CatenaError, match=r"No candidate could be trained within 1000 s\. .*It diverged\."):
        run(tmp_path / "run")
    assert not (tmp_path / "run").exists(), "the folder can be used again"


def test_search_without_any_score_ends_with_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = use(monkeypatch, Script(SCORES, DataSize(5000, 300, 25_000)))
    monkeypatch.setattr(ScriptedWorker, "start", silent_start)
    monkeypatch.setattr(module, "wait", wait_in_vain(script))
    lines: list[str] = []
    values = {"machine": {"threads": 2}}
    with pytest.raises(CatenaError, match=r"within 5 s\. Pass a longer --max-time\. .*it needs more time"):
        search_model(get_spec("classify"), values, tmp_path / "run", 5.0, lines.append)
    assert 60 < script.now < 75
    assert sum("none has a score yet" in line for line in lines) == 1


def silent_start(worker: ScriptedWorker, job: Job) -> None:
    """Start a job. Only counting ever ends."""
    Worker.start(worker, job)
    worker.other.recv()
    if isinstance(job, CountJob):
        worker.other.send(worker.script(job))


def wait_in_vain(script: Script) -> Callable[..., list[Any]]:
    """Return a function that moves the clock by a second without results."""

    def wait(*_: Any, **__: Any) -> list[Any]:
        script.now += 1.0
        return []

    return wait


def test_small_dev_set_is_enlarged_and_then_used_for_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = use(monkeypatch, Script(SCORES, DataSize(1000, 0, 5000)))
    result = run(tmp_path / "run")
    (again,) = script.slices("again")
    assert again.values["data"] == {"dev_fraction": 0.2, "train_on_dev": True}
    assert again.n_evaluations == 1, "a dev set that is part of train cannot choose a checkpoint"
    assert result.scores == {"accuracy": 0.9}, "the dev score of the model that did not see dev"
    assert (tmp_path / "run" / "meta.json").read_text() == "again"


@pytest.mark.parametrize(("name", "is_enlarged"), [("gru", False), ("cnn", True)])
def test_dev_set_is_not_enlarged_without_a_choice(
    name: str, is_enlarged: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = use(monkeypatch, Script({name: 0.6}, DataSize(1000, 0, 5000)))
    monkeypatch.setattr(module, "suitable", lambda *_: [one for one in _four_candidates(*_) if one[0].name == name])
    run(tmp_path / "run")
    first, last = script.slices(name)[0], script.slices(name)[-1]
    assert ("dev_fraction" in first.values["data"]) is is_enlarged, "only the convolutional network has variations"
    assert last.has_rate is not is_enlarged
    assert bool(script.slices("again")) is is_enlarged, "the whole time is used for one training"


@pytest.mark.parametrize("overfits", [True, False])
def test_a_network_that_was_improving_is_not_trained_from_scratch_on_all_data(
    overfits: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = use(monkeypatch, Script(SCORES, DataSize(1000, 0, 5000)))
    if overfits:
        script.overfitted, script.lasts = {"cnn-wide"}, {"cnn-wide": 100.0}
    run(tmp_path / "run")
    (again,) = script.slices("again")
    assert again.start == (None if overfits else tmp_path / "run" / "search" / "cnn-wide")
    assert again.threads == 2, "nothing else is trained at this time"
    if not overfits:
        first = script.slices("cnn-wide")[-1].seconds
        assert again.seconds > 300, "40 % of the time"
        assert 550 < script.now - again.seconds < 650
        assert again.steps == 2 * math.ceil(10 * first / 0.8)


def test_a_network_starts_again_if_its_weights_do_not_fit_all_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = use(monkeypatch, Script(SCORES, DataSize(1000, 0, 5000)))
    answer = Script.__call__

    def fail(self: Script, job: Job) -> Any:
        if isinstance(job, Slice) and job.start is not None:
            self.jobs.append(job)
            return Outcome("failed", lines=("The label is unknown.",))
        return answer(self, job)

    monkeypatch.setattr(Script, "__call__", fail)
    run(tmp_path / "run")
    record = read_record(tmp_path / "run")
    assert record is not None
    assert record.refit
    assert [job.start is None for job in script.slices("again")] == [False, True]


@pytest.mark.parametrize("threads", [1, 2])
def test_the_rate_of_a_network_falls_in_the_last_part_of_the_time(
    threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = use(monkeypatch, Script({**SCORES, "cnn": 0.88}, DataSize(5000, 300, 25_000)))
    monkeypatch.setattr(Script, "clock_rate", 1 / threads)
    falling: list[float] = []
    script.on_slice = lambda job: falling.append(script.now) if job.steps is not None and job.has_rate else None
    run(tmp_path / "run", machine={"threads": threads})
    assert falling[0] == pytest.approx(0.7 * 960, abs=20)
    *_, constant, _ = script.slices("cnn-wide")
    assert not constant.has_rate
    assert trials._limits(constant)["patience"] == 0, "noise of dev must not end it before its rate falls"


@pytest.mark.parametrize("others", [{}, {"tfidf": 0.7}])
def test_the_rate_of_networks_falls_once_if_there_are_no_other_models(
    others: dict[str, float], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = use(monkeypatch, Script({"cnn": 0.9, **others}, DataSize(1000, 0, 5000), counted=set(others)))
    run(tmp_path / "run")
    last = [script.slices(name)[-1] for name in ("cnn", "again")]
    assert all(job.steps is not None for job in last)
    assert [job.has_rate for job in last] == [bool(others), True]


def test_training_on_dev_can_be_switched_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = use(monkeypatch, Script(SCORES, DataSize(1000, 0, 5000)))
    run(tmp_path / "run", data={"train_on_dev": False})
    assert not script.slices("again")


def test_dev_fraction_of_the_user_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = use(monkeypatch, Script(SCORES, DataSize(1000, 0, 5000)))
    run(tmp_path / "run", data={"dev_fraction": 0.05})
    assert {job.values["data"]["dev_fraction"] for job in script.jobs if isinstance(job, Slice)} == {0.05}


def test_candidates_divide_the_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = use(monkeypatch, Script(SCORES, DataSize(5000, 300, 25_000)))
    run(tmp_path / "run")
    assert {job.threads for name in ("tfidf", "cnn", "gru") for job in script.slices(name)} == {1}
    *earlier, last = script.slices("cnn-wide")
    assert {job.threads for job in earlier} == {1}
    assert last.threads == 2, "the other candidates are far behind"
    assert last.steps is not None


def test_candidates_that_are_close_to_the_best_are_trained_until_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = use(monkeypatch, Script({**SCORES, "cnn": 0.88}, DataSize(5000, 300, 25_000)))
    run(tmp_path / "run")
    last = [script.slices(name)[-1] for name in ("cnn", "cnn-wide")]
    assert [job.threads for job in last] == [1, 1]
    assert all(job.steps is not None for job in last)


def test_networks_use_one_thread_on_a_busy_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = use(monkeypatch, Script({"cnn": 0.9}, DataSize(5000, 300, 25_000)))
    monkeypatch.setattr(module.os, "cpu_count", lambda: 2)
    monkeypatch.setattr(module.os, "getloadavg", lambda: (4.0, 0.0, 0.0), raising=False)
    run(tmp_path / "run")
    assert {job.threads for job in script.jobs if isinstance(job, Slice)} == {1}


def test_only_one_core_is_used_if_the_user_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = use(monkeypatch, Script(SCORES, DataSize(5000, 300, 25_000)))
    run(tmp_path / "run", machine={"threads": 1})
    found = {(job.threads, job.values["machine"]["threads"]) for job in script.jobs if isinstance(job, Slice)}
    assert found == {(None, 1)}


def test_interruption_keeps_the_best_and_can_be_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interruption = Interruption()
    monkeypatch.setattr(Interruption, "__enter__", lambda self: interruption)

    def stop(job: Slice) -> None:
        interruption.requested = len(script.slices("cnn")) + len(script.slices("tfidf")) >= 2

    script = use(monkeypatch, Script(SCORES, DataSize(5000, 300, 25_000), stop))
    result = run(tmp_path / "run")
    assert result.interrupted
    assert result.scores == {"accuracy": 0.8}
    assert (tmp_path / "run" / "meta.json").read_text() == "cnn"
    assert is_unfinished(tmp_path / "run")
    interruption.requested = False
    script.on_slice = lambda job: None
    script.jobs.clear()
    assert continue_search(tmp_path / "run", lambda line: None).scores == {"accuracy": 0.9}
    assert (tmp_path / "run" / "meta.json").read_text() == "cnn-wide"
    assert not is_unfinished(tmp_path / "run")
    assert not script.slices("tfidf"), "finished slices are not trained again"
    with pytest.raises(CheckpointError, match="has no unfinished search"):
        continue_search(tmp_path / "run", lambda line: None)


def test_ctrl_c_stops_candidates_that_ignore_it_and_keeps_them_for_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interruption = Interruption()
    monkeypatch.setattr(Interruption, "__enter__", lambda self: interruption)
    script = use(monkeypatch, Script(SCORES, DataSize(5000, 300, 25_000)))
    vain, scripted = wait_in_vain(script), module.wait
    answer = ScriptedWorker.start

    def start(worker: ScriptedWorker, job: Job) -> None:
        """Start a job. All but the first candidate never end."""
        (silent_start if isinstance(job, Slice) and job.folder.name != "tfidf" else answer)(worker, job)

    def wait(connections: Any, timeout: float) -> list[Any]:
        interruption.requested = "tfidf" in {job.folder.name for job in script.jobs if isinstance(job, Slice)}
        return list(scripted(connections, timeout=0)) or vain()

    monkeypatch.setattr(ScriptedWorker, "start", start)
    monkeypatch.setattr(module, "wait", wait)
    result = run(tmp_path / "run", seconds=5000.0)
    began = script.slices("tfidf")[0].seconds / 2
    assert result.interrupted
    assert script.now - began < 15, "soon, and not when the time is over"
    record = read_record(tmp_path / "run")
    assert record is not None
    assert [trial.status for trial in record.trials] == ["trained", "waiting", "waiting", "waiting"]


@pytest.mark.parametrize("kept", [{"schedule": "cosine"}, {"patience": 3}, {"eval_every": 7}, {"max_steps": 40}])
def test_training_options_of_the_user_are_kept(
    kept: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    networks = {name: SCORES[name] for name in ("cnn", "cnn-wide", "gru")}
    networks["cnn"] = 0.88  # as good as the best one
    script = use(monkeypatch, Script(networks, DataSize(5000, 300, 25_000)))
    run(tmp_path / "run", training=kept)
    last = [script.slices(name)[-1] for name in ("cnn", "cnn-wide")]
    found = [{**job.values["training"], **trials._limits(job)} for job in last]
    assert [{name: limits[name] for name in kept} for limits in found] == [kept, kept]
    others = {"schedule": "linear", "patience": 0}
    if "max_steps" not in kept:  # a candidate with this number of steps has converged and has no last slice
        assert all(limits[name] == others[name] for limits in found for name in others.keys() - kept.keys())


def test_candidate_with_the_number_of_steps_of_the_user_has_converged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = use(monkeypatch, Script(SCORES, DataSize(5000, 300, 25_000)))
    run(tmp_path / "run", training={"max_steps": 40})
    record = read_record(tmp_path / "run")
    assert record is not None
    assert {trial.status for trial in record.trials if trial.scores} == {"converged"}
    assert len(script.slices("cnn")) == 1


def test_limits_take_the_smaller_number_of_steps(tmp_path: Path) -> None:
    job = Slice("classify", {"training": {"max_steps": 40}}, tmp_path, 9.0, 50, 10, kept=("max_steps",))
    assert trials._limits(job) == {
        "max_time": "9.0s", "max_steps": 40, "schedule": "linear", "patience": 0, "eval_every": 4,
    }  # fmt: skip
    slow = replace(job, values={"training": {"warmup_steps": 50}})
    assert "warmup_steps" not in trials._limits(slow), "it is as the candidate has it"
    assert trials._limits(replace(slow, steps=16))["warmup_steps"] == 16, "it must not be longer than the training"
    assert trials._limits(replace(job, steps=30))["max_steps"] == 30
    assert trials._limits(replace(job, kept=()))["max_steps"] == 50


def test_record_is_on_disk_while_the_search_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []

    def look(job: Slice) -> None:
        values = json.loads((tmp_path / "run" / "search.json").read_text(encoding="utf-8"))
        tried.append(sum(trial["status"] != "waiting" for trial in values["trials"]))

    use(monkeypatch, Script(SCORES, DataSize(5000, 300, 25_000), look))
    run(tmp_path / "run")
    assert tried[0] == 0
    assert tried[-1] == 4


def test_simplest_candidate_is_trained_even_if_reading_took_all_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = use(monkeypatch, Script(SCORES, DataSize(5000, 300, 25_000)))
    examine = script.__class__.__call__

    def slow(self: Script, job: Job) -> Any:
        if isinstance(job, CountJob):
            self.now += 2000
        return examine(self, job)

    monkeypatch.setattr(Script, "__call__", slow)
    assert run(tmp_path / "run").scores == {"accuracy": 0.7}
    assert [job.folder.name for job in script.jobs if isinstance(job, Slice)] == ["tfidf"]


def test_small_dev_set_takes_no_time_from_networks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    longest = {}
    for n in (1000, 20_000):  # dev has 20 % and 10 % of the examples
        script = use(monkeypatch, Script(SCORES, DataSize(n, 0, 5 * n)))
        run(tmp_path / str(n))
        longest[n] = script.slices("cnn-wide")[-1].seconds
    assert longest[20_000] > 1.3 * longest[1000]


def test_time_is_kept_for_scoring_a_large_test_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    longest = {}
    for n_test in (0, 3000):
        script = use(monkeypatch, Script(SCORES, DataSize(5000, 300, 25_000, n_test=n_test), evaluation=5.0))
        run(tmp_path / str(n_test))
        longest[n_test] = script.slices("cnn-wide")[-1].seconds
    assert longest[3000] == pytest.approx(longest[0] - 160, abs=60)  # 200 s of 1,000 s instead of 40 s


def test_the_simplest_candidate_has_time_to_converge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = use(monkeypatch, Script(SCORES, DataSize(5000, 300, 25_000)))
    run(tmp_path / "run")
    first = {name: script.slices(name)[0].seconds for name in SCORES}
    assert first["tfidf"] > 2 * first["cnn"] == 2 * first["gru"]


def test_time_that_training_again_does_not_need_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The simplest candidate is the best and needs too long for a second training: its first one continues."""
    script = use(monkeypatch, Script({"tfidf": 0.9}, DataSize(1000, 0, 5000), counted={"tfidf"}))
    run(tmp_path / "run")
    assert not script.slices("again")
    assert max(job.seconds for job in script.slices("tfidf")) > 800


def test_time_for_training_again_is_kept_while_the_last_candidates_are_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How long the best candidate needs is known only when it has converged, among the last candidates."""
    script = use(monkeypatch, Script({"tfidf": 0.9, "cnn": 0.5}, DataSize(1000, 0, 5000), counted={"tfidf"}))
    script.lasts, script.evaluation = {"tfidf": 200.0}, 1.0
    monkeypatch.setattr(Script, "clock_rate", 1.0)
    run(tmp_path / "run", machine={"threads": 1})
    record = read_record(tmp_path / "run")
    assert record is not None
    assert record.refit


def test_idle_workers_train_variations_of_a_converged_leader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scores = {"tfidf": 0.9, "cnn": 0.5, "tfidf-003": 0.95}
    counted = {f"tfidf-{i:03d}" for i in range(20)} | {"tfidf"}
    script = use(monkeypatch, Script(scores, DataSize(5000, 300, 25_000), counted=counted))
    script.lasts = dict.fromkeys(counted, 10.0)
    assert run(tmp_path / "run").scores == {"accuracy": 0.95}
    assert len(script.slices("cnn")) > 1, "another worker continues with the last candidate"
    record = read_record(tmp_path / "run")
    assert record is not None
    assert record.winner == "tfidf-003"
    assert {trial.varies for trial in record.trials} == {"", "tfidf"}
    assert sum(trial.varies == "tfidf" for trial in record.trials) >= 4


def test_variations_that_do_not_fit_are_not_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = use(monkeypatch, Script({"tfidf": 0.9}, DataSize(5000, 300, 25_000), counted={"tfidf"}))
    script.lasts = {"tfidf": 390.0, "tfidf-001": 500.0}
    script.scores |= {"tfidf-001": 0.8, "tfidf-002": 0.8}
    run(tmp_path / "run")
    assert script.slices("tfidf-001")
    record = read_record(tmp_path / "run")
    assert record is not None
    assert [trial.name for trial in record.trials if trial.varies and trial.status == "waiting"] == []


def test_networks_are_varied_with_a_falling_rate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = use(monkeypatch, Script({"cnn-wide": 0.9, "cnn-wide-same": 0.95}, DataSize(5000, 300, 25_000)))
    script.lasts = {"cnn-wide": 20.0, "cnn-wide-same": 40.0}
    assert run(tmp_path / "run").scores == {"accuracy": 0.95}
    assert [job.steps for job in script.slices("cnn-wide-same")] == [400]


def test_a_converged_leader_is_varied_before_the_last_candidates_take_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = {f"tfidf-{i:03d}" for i in range(20)} | {"tfidf"}
    scores = {**dict.fromkeys(counted, 0.7), **SCORES, "tfidf": 0.95}
    script = use(monkeypatch, Script(scores, DataSize(5000, 300, 25_000), counted=counted))
    script.lasts = dict.fromkeys(counted, 10.0)
    run(tmp_path / "run", machine={"threads": 1})
    names = [job.folder.name for job in script.jobs if isinstance(job, Slice)]
    assert names.index("tfidf-001") < len(names) - 1 - names[::-1].index("cnn-wide")


def test_close_candidates_are_varied_after_the_best_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = {f"tfidf-{i:03d}" for i in range(20)} | {"tfidf"}
    scores = {"tfidf": 0.9, "cnn": 0.88, "cnn-wide": 0.5, "cnn-001": 0.95}
    script = use(monkeypatch, Script(scores, DataSize(5000, 300, 25_000), counted=counted))
    script.lasts = dict.fromkeys((*counted, "cnn", "cnn-wide"), 10.0)
    assert run(tmp_path / "run").scores == {"accuracy": 0.95}
    assert script.slices("tfidf-001")
    assert not script.slices("cnn-wide-same"), "it is far from the best"


@pytest.mark.parametrize("overfits", [True, False])
def test_networks_that_overfit_while_their_rate_falls_have_converged(
    overfits: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = use(monkeypatch, Script({"cnn": 0.9}, DataSize(5000, 300, 25_000), evaluation=1.0))
    script.overfitted = {"cnn"} if overfits else set()
    run(tmp_path / "run", machine={"threads": 1})
    record = read_record(tmp_path / "run")
    assert record is not None
    assert record.trials[1].name == "cnn"
    assert record.trials[1].status == ("converged" if overfits else "trained")


@pytest.mark.parametrize("name", ["tfidf", "cnn"])
def test_only_networks_are_trained_again_with_a_falling_rate(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log-linear model has several steps but no schedule, which its config would reject."""
    script = use(monkeypatch, Script({name: 0.9}, DataSize(1000, 0, 5000), counted={"tfidf"}))
    script.lasts = {name: 10.0}
    run(tmp_path / "run")
    (again,) = script.slices("again")
    assert again.steps is not None
    assert again.has_rate is (name == "cnn")


def test_models_without_gradient_steps_are_compared_on_further_dev_sets_of_a_tenth(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = {"tfidf", "tfidf-001"}
    counted |= {f"{name}-part{part}" for name in counted for part in range(1, 5)}
    script = use(monkeypatch, Script(dict.fromkeys(counted, 0.8), DataSize(5000, 0, 25_000), counted=counted))
    script.lasts = dict.fromkeys((*counted, *(f"tfidf-{i:03d}" for i in range(20))), 5.0)
    run(tmp_path / "run")
    record = read_record(tmp_path / "run")
    assert record is not None
    assert record.dev_fraction == pytest.approx(0.1)
    assert record.n_parts == 5


def test_close_candidates_of_few_data_are_compared_on_further_dev_sets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = {"tfidf", *(f"tfidf-{i:03d}" for i in range(20))}
    scores = {"tfidf": 0.80, "tfidf-001": 0.82, "cnn": 0.3, "cnn-wide": 0.3, "gru": 0.3}
    for name, score in (("tfidf", 0.8), ("tfidf-001", 0.6)):
        scores |= {f"{name}-part{part}": score for part in range(1, 5)}
    script = use(monkeypatch, Script(scores, DataSize(1000, 0, 5000), counted=counted))
    script.counted |= {name for name in scores if "part" in name}
    script.lasts = dict.fromkeys((*counted, *script.counted), 5.0)
    run(tmp_path / "run")
    record = read_record(tmp_path / "run")
    assert record is not None
    assert record.winner == "tfidf"
    assert record.refit
    parts = {
        job.values["data"]["dev_part"] for job in script.jobs if isinstance(job, Slice) and "part" in job.folder.name
    }
    assert parts == {1, 2, 3, 4}, "a fifth of the data is dev"
    assert record.mean_ranks() == pytest.approx({"tfidf": 0.8, "tfidf-001": (0.82 + 4 * 0.6) / 5})
    again = script.slices("again")[0]
    assert again.values["data"] == {"dev_fraction": 0.2, "train_on_dev": True}


def test_a_dev_file_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = {"tfidf", *(f"tfidf-{i:03d}" for i in range(20))}
    script = use(monkeypatch, Script({"tfidf": 0.8, "tfidf-001": 0.8}, DataSize(1000, 100, 5000), counted=counted))
    script.lasts = dict.fromkeys(counted, 5.0)
    run(tmp_path / "run")
    assert not [job for job in script.jobs if isinstance(job, Slice) and "dev_part" in job.values.get("data", {})]


def test_finished_comparisons_are_not_repeated_by_resume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interruption = Interruption()
    monkeypatch.setattr(Interruption, "__enter__", lambda self: interruption)
    counted = {"tfidf", "tfidf-001", *(f"{name}-part{i}" for name in ("tfidf", "tfidf-001") for i in range(1, 5))}
    script = use(monkeypatch, Script(dict.fromkeys(counted, 0.8), DataSize(1000, 0, 5000), counted=counted))
    script.lasts = dict.fromkeys((*counted, *(f"tfidf-{i:03d}" for i in range(20))), 5.0)

    def stop(job: Slice) -> None:
        interruption.requested = len(parts()) >= 3

    def parts() -> list[str]:
        return [job.folder.name for job in script.jobs if isinstance(job, Slice) and "part" in job.folder.name]

    script.on_slice = stop
    run(tmp_path / "run")
    before = parts()
    assert 3 <= len(before) < 8
    interruption.requested, script.on_slice = False, lambda job: None
    continue_search(tmp_path / "run", lambda line: None)
    assert len(parts()) == len(set(parts())) == 8


class UnknownLabels(Script):
    """A script in which dev has labels that the weights of the best candidate do not know."""

    def __call__(self, job: Job) -> Outcome | DataSize:
        if isinstance(job, Slice) and job.start is not None:
            return Outcome("failed", lines=("a label is not known",))
        return super().__call__(job)


def test_a_network_that_does_not_know_the_labels_of_dev_is_trained_from_scratch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = use(monkeypatch, UnknownLabels(SCORES, DataSize(1000, 0, 5000)))
    run(tmp_path / "run")
    (again,) = script.slices("again")
    assert again.start is None
    record = read_record(tmp_path / "run")
    assert record is not None
    assert record.refit
