"""``catena spot RUN FILES…``, which finds where a class of sounds, such as a keyword, occurs in recordings.

Tested in tests/tasks/classify/media/test_spot.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from catena.cli.common import MachineOptions, RunCommand, check_writable, warn, write_output
from catena.cli.parser import Arg, UsageError

if TYPE_CHECKING:
    from catena.tasks.classify.media.sounds import SoundTask
    from catena.tasks.classify.media.spot import LabelCurve


class SpotCommand(MachineOptions):
    """Find a keyword, or another class of sounds, in recordings of any length."""

    usage = "catena spot RUN FILES… [--options]"
    example = "catena spot runs/word meeting.wav --label word --without radio.wav --false-alarms 1"

    run: Annotated[Path, Arg("RUN", positional=True)]
    """Run or checkpoint folder of a classifier of sounds."""
    files: Annotated[tuple[str, ...], Arg("FILES…", positional=True)] = ()
    """Recordings to search, of any length."""
    label: Annotated[str | None, Arg("NAME")] = None
    """Class to find. It may be left out if the model has only one."""
    threshold: float | None = None
    """Lowest score of a detection: the log-odds of the class. Default: 0, unless --without is set."""
    without: Annotated[tuple[Path, ...], Arg("FILES")] = ()
    """Recordings without the class, on which the threshold is chosen."""
    false_alarms: float = Field(1.0, ge=0)
    """With --without: allowed false alarms in an hour."""
    smoothing: float = Field(0.05, ge=0)
    """Length of the moving average of the scores in seconds."""
    dead_time: float = Field(0.7, gt=0)
    """Seconds that one detection covers."""
    curve: Annotated[Path | None, Arg("FILE")] = None
    """Also write the score curve: file, time and score of each frame, as TSV."""
    format: Literal["text", "tsv", "csv", "jsonl"] = "text"
    """Output format."""
    output: Annotated[Path | None, Arg("FILE", "-o")] = None
    """Output file. Default: standard output."""


def run(argv: Sequence[str]) -> int:
    """Write the time and the score of each detection."""
    command = RunCommand(SpotCommand, argv, predicts=False)
    options = command.options
    if not options.files:
        raise UsageError(f"FILES… is missing. Usage: {SpotCommand.usage}.")
    if options.threshold is not None and options.without:
        raise UsageError("--threshold and --without both set the threshold. Remove one of them.")
    for path in (options.output, options.curve):
        if path is not None:
            check_writable(path, "detections.tsv", options.files[0])

    from catena.tasks.classify.media.sounds import SoundTask

    task = command.open()
    if not isinstance(task, SoundTask):
        raise UsageError(f"{options.run} is not a classifier of sounds. Train one with 'catena train classify FOLDER'.")
    label = _choose_label(task, options.label)
    threshold = _choose_threshold(task, label, options)
    curves = [_score(task, Path(file), label, options) for file in options.files]
    if options.curve is not None:
        write_output(_curve_lines(curves), options.curve)
    write_output(_lines(curves, threshold, options), options.output)
    return 0


def _choose_label(task: SoundTask, name: str | None) -> str:
    if name is None and len(task.labels) > 1:
        raise UsageError(f"--label is missing. Choose one of {', '.join(task.labels)}.")
    if name is not None and name not in task.labels:
        raise UsageError(f"--label must be one of {', '.join(task.labels)}, got {name!r}. Choose one of these.")
    return name or task.labels[0]


def _score(task: SoundTask, path: Path, label: str, options: Any) -> LabelCurve:
    from catena.tasks.classify.media.spot import score_label

    return score_label(task, path, label, options.smoothing)


def _choose_threshold(task: SoundTask, label: str, options: Any) -> float:
    """The threshold of the options, or the one for the allowed false alarms, which is reported."""
    from catena.tasks.classify.media.spot import choose_label_threshold

    if not options.without:
        return 0.0 if options.threshold is None else options.threshold
    curves = [_score(task, path, label, options) for path in options.without]
    chosen = choose_label_threshold(curves, options.false_alarms, options.dead_time)
    warn(
        "spot",
        f"threshold {chosen.threshold:.3f} for at most {options.false_alarms:g} false alarms an hour: "
        f"{chosen.n_alarms} in {chosen.hours:.3f} hours without {label} (95 % interval {chosen.alarms.low:.2f} to "
        f"{chosen.alarms.high:.2f} an hour)",
    )
    return chosen.threshold


def _curve_lines(curves: Sequence[LabelCurve]) -> Iterator[str]:
    yield "file\ttime\tscore"
    for curve in curves:
        for i, score in enumerate(curve.scores.tolist()):
            yield f"{curve.file}\t{i * curve.hop:.3f}\t{score:.4f}"


def _lines(curves: Sequence[LabelCurve], threshold: float, options: Any) -> Iterator[str]:
    from catena.tasks.writing import PredictionWriter

    writer = PredictionWriter(options.format)
    for curve in curves:
        found = curve.detections(threshold, options.dead_time)
        for one in found:
            yield from writer.lines(one)
        if options.format == "text":
            yield f"{curve.file}: {len(found)} in {curve.seconds:.1f} s at threshold {threshold:.3f}"
