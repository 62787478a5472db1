"""The default model of a task for the size of the data, from the same table as the candidates of a search.

Tested in tests/tasks/auto/test_default.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from catena.config import parse
from catena.errors import CatenaError
from catena.tasks.auto.table import default_candidate, merge, read_candidates
from catena.tasks.spec import TaskSpec


def default_values(spec: TaskSpec, values: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """The values with the default model for the size of the data, and a line that names it.

    Options that the user set win. The values are returned unchanged, with an empty line, if they name a model, if the
    task has no table, or if the data cannot be read twice.

    Args:
        spec: the task.
        values: the config values that the user set.
    """
    from catena.tasks.auto.trials import count_examples

    unchanged = dict(values), ""
    if "model" in values or not any(candidate.default[1] for candidate in read_candidates(spec.name)):
        return unchanged
    try:
        config: Any = parse(spec.config_class(), values)
        if not all(path.is_file() for path in config.data.files().values()):
            return unchanged
        size = count_examples(spec.name, values)
        found = default_candidate(spec, values, size)
        if found is None:
            return unchanged
        merged = merge(found.config, values)
        parse(spec.config_class(), merged)
    except CatenaError:  # training reports errors of the data; options of another model keep that model
        return unchanged
    line = f"model: {found.name} ({found.about}), the default for {size.n_train:,} examples; --max-time 5m searches"
    return merged, line
