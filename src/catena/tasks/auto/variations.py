"""Variations of the best candidate, for the time that is left when it has converged.

The table of a candidate says which of its options to vary. A variation of a network is trained from scratch with a
learning rate that falls to 0. Tested in tests/tasks/auto/test_variations.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from catena.errors import ConfigError
from catena.tasks.auto.ranges import combine, parse_range
from catena.tasks.auto.record import Trial
from catena.tasks.auto.table import Candidate, read_candidates
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


def _is_free(key: str, candidate: Candidate, values: Mapping[str, Any]) -> bool:
    """Whether an option has the value of the candidate, so that the user did not set it."""
    return _get(values, key) == _get(candidate.config, key)


def _get(values: Mapping[str, Any], key: str) -> object:
    found: Any = values
    for name in key.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found
