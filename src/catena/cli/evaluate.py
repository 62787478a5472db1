"""``catena evaluate RUN FILE``, which scores a trained model on labeled data."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from catena.cli.common import RunCommand, WeightOptions, input_file, open_ensemble, write_output
from catena.cli.parser import Arg, UsageError


class EvaluateCommand(WeightOptions):
    """Score a trained model on data with gold labels or references."""

    usage = "catena evaluate RUN FILE [--options]"
    example = "catena evaluate runs/first test.csv --format json"

    run: Annotated[Path, Arg("RUN", positional=True)]
    """Run or checkpoint folder."""
    file: Annotated[str | None, Arg("FILE", positional=True)] = None
    """File like the training files. It is read as they were unless options say otherwise. An agent needs no file: it
    plays its test episodes."""
    format: Literal["text", "json"] = "text"
    """Output format: readable text, or one JSON object with scores, intervals, classes and counts."""
    ensemble: Annotated[tuple[Path, ...], Arg("RUN")] = ()
    """More runs to ensemble with the first."""
    baseline: Annotated[tuple[str, ...], Arg("NAMES")] = ()
    """Also fit models of scikit-learn to the training files of the run and compare them with its model, separated by
    commas. classify: majority, logistic, ridge, svm, svm_rbf; regress: mean, linear, ridge, svr, svr_rbf; embed: lsa,
    pca, factor, ica, sparse, nmf."""


def run(argv: Sequence[str]) -> int:
    """Print the scores of a model on a file."""
    command = RunCommand(EvaluateCommand, argv)
    if command.options.file is None:
        if command.spec is None or command.spec.has_examples:
            raise UsageError(f"FILE is missing. Usage: {EvaluateCommand.usage}.")
        from catena.cli.play import evaluate_agent

        return evaluate_agent(command.options)
    task = open_ensemble(command, command.options.ensemble)
    if command.predict_values:
        task = task.search_options(command.predict_options(task))
    names = [name for value in command.options.baseline for name in value.split(",") if name]
    with input_file(command.options.file) as path:
        examples, counts = read_gold_file(task, path)
        result = replace(task.evaluate(examples), counts=counts)
        baselines = None
        if names:
            from catena.tasks.runs import evaluate_baselines

            baselines = evaluate_baselines(task, command.options.run, names, examples, command.options.file)
    if command.options.format == "json":
        from catena.tasks.writing import to_json

        more = {} if baselines is None else {"baselines": baselines.to_dict()}
        sys.stdout.write(to_json({"file": command.options.file, **result.to_dict(), **more}) + "\n")
    else:
        lines = [*result.lines(), *([] if baselines is None else ["", *baselines.lines()])]
        write_output(lines, None)
    return 0


def evaluate_file(task: Any, path: Path) -> Any:
    """The comparison of predictions and gold data of a file, with the counts of what was read."""
    examples, counts = read_gold_file(task, path)
    return replace(task.evaluate(examples), counts=counts)


def read_gold_file(task: Any, path: Path) -> tuple[list[Any], str]:
    """The examples of a file with gold data, and a sentence about what was read."""
    from catena.data.reading import ReadCounter
    from catena.errors import DataError
    from catena.tasks.sources import read_scored

    counter = ReadCounter()
    examples = read_scored(task, task.config, path, counter)
    if not examples:
        raise DataError(f"{path} has no example to score: {counter.counts(0).sentence('')}. Check the file.")
    return examples, counter.counts(counter.used).sentence("")
