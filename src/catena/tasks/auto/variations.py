"""Variations of the best candidate, for the time that is left when it has converged, and its training on all data.

The table of a candidate says which of its options to vary. A variation of a network is trained from scratch with a
learning rate that falls to 0. Tested in tests/tasks/auto/test_variations.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from catena.checkpoint import is_run, open_checkpoint
from catena.errors import ConfigError
from catena.tasks.auto.ranges import combine, parse_range
from catena.tasks.auto.record import Trial
from catena.tasks.auto.table import Candidate, merge, read_candidates
from catena.tasks.spec import get_spec


def vary(task: str, base: Trial, n: int, seed: int) -> list[Trial]:
    """At most ``n`` trials that differ from a trial in the options that its candidate varies.

    Args:
        task: the name of the task.
        base: the trial of a candidate. Options that the user set are kept.
        n: the largest number of variations.
        seed: the seed of their choice.

    Returns:
        The trials; none if the candidate varies no option.
    """
    candidate = next((one for one in read_candidates(task) if one.name == base.name), None)
    if candidate is None or n < 1:
        return []
    spec = get_spec(task)
    texts = [f"{key}={text}" for key, text in candidate.vary.items() if _is_free(key, candidate, base.values)]
    try:
        ranges = [parse_range(text, spec.config_class(), base.values) for text in texts]
        found = combine(spec, base.values, ranges, n, seed) if ranges else [(Candidate("same", ""), base.values)]
    except ConfigError:  # of options that the user set
        return []
    different = [(one, values) for one, values in found if base.is_network or values != base.values]
    return [
        Trial(f"{base.name}-{one.name}", ", ".join(filter(None, [base.about, one.about])), values, varies=base.name)
        for one, values in different
    ]


def values_on_all_data(
    task: str, values: Mapping[str, Any], folder: Path, scores: Mapping[str, float]
) -> dict[str, Any]:
    """The values with which the best candidate is trained again on train and dev.

    All that a model chose by dev is kept, since dev is then training data: the temperature of a classifier with the
    penalty that it is for; the penalty, the kernel and the standard deviation of a regression.

    Args:
        task: the name of the task.
        values: the values of the candidate.
        folder: its run.
        scores: its scores on dev.
    """
    found = merge(values, {"data": {"train_on_dev": True}})
    if task not in ("classify", "regress") or not is_run(folder):
        return found
    first, kind = open_checkpoint(folder), found["model"]["kind"]
    arrays = first.arrays()
    model: dict[str, Any] = {}
    if task == "classify":
        evaluation = {"temperature": float(arrays.get("temperature", 1.0))}
        if kind == "tfidf":
            model = {"penalty": float(first.training_arrays()["numbers"][0])}
    else:
        evaluation = {"deviation": scores["rmse"]} if scores.get("rmse", 0.0) > 0 else {}
        chosen = {"alpha": "chosen.alpha", "gamma": "chosen.relative_gamma"}
        model = {name: (float(arrays[key]),) for name, key in chosen.items() if key in arrays}
    return merge(found, {"model": {"kind": kind, **model}, "evaluation": {**evaluation, **found.get("evaluation", {})}})


def _is_free(key: str, candidate: Candidate, values: Mapping[str, Any]) -> bool:
    """Whether an option has the value of the candidate, so that the user did not set it."""
    return _get(values, key) == _get(candidate.config, key)


def _get(values: Mapping[str, Any], key: str) -> object:
    found: Any = values
    for name in key.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found
