"""Search configs, and the searches that they build."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from typing import Any

import pytest
import torch
from pydantic import TypeAdapter, ValidationError

from catena.errors import ConfigError
from catena.search.beam_search import beam
from catena.search.build import build_filters, search, stream, wrap_stepper
from catena.search.config import (
    BeamConfig,
    DiverseBeamConfig,
    GreedyConfig,
    SampleConfig,
    SearchConfig,
    StochasticBeamConfig,
)
from catena.search.diverse import diverse_beam
from catena.search.filters import apply, min_p, temperature, top_k, top_p, typical
from catena.search.greedy_search import greedy
from catena.search.ranking import average_length_penalty, gnmt_length_penalty, stop_after, stop_at_max_length
from catena.search.repeats import NoRepeatNgram
from catena.search.sampling import sample
from catena.search.stochastic import stochastic_beam
from tests.search.models import random_table

TABLE = random_table(6, 2, end=5, seed=4)


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(3)


def found(settings: Any) -> Any:
    return search(settings, TABLE, TABLE.start(2), generator())


def test_each_config_builds_its_search() -> None:
    start = TABLE.start(2)
    assert found(GreedyConfig(max_length=7, min_length=2)) == greedy(TABLE, start, 7, 2)
    wanted = sample(TABLE, start, generator(), 7, [partial(temperature, t=0.5), partial(top_k, k=3)], 1, 4)
    assert found(SampleConfig(max_length=7, min_length=1, temperature=0.5, top_k=3, n=4)) == wanted
    wide = BeamConfig(beam_size=4, n_best=3, max_length=6, normalize="gnmt", length_penalty=0.9)
    assert found(wide) == beam(TABLE, start, 4, 6, n_best=3, length_penalty=gnmt_length_penalty(0.9))
    counted = BeamConfig(beam_size=3, max_length=6, normalize="average", stop="count", stop_count=1)
    assert found(counted) == beam(TABLE, start, 3, 6, length_penalty=average_length_penalty, stop=stop_after(1))
    long = BeamConfig(beam_size=3, max_length=6, min_length=1, stop="length")
    assert found(long) == beam(TABLE, start, 3, 6, 1, stop=stop_at_max_length)
    groups = DiverseBeamConfig(beam_size=4, groups=2, strength=2.0, n_best=4, max_length=5)
    assert found(groups) == diverse_beam(TABLE, start, 4, 2, 5, 2.0, n_best=4)
    drawn = stochastic_beam(TABLE, start, generator(), 3, 5, [partial(top_p, p=0.8)])
    assert found(StochasticBeamConfig(n=3, max_length=5, top_p=0.8)) == [row.hypotheses for row in drawn]


def test_stop_count_defaults_to_the_beam_size() -> None:
    assert found(BeamConfig(beam_size=3, max_length=6, stop="count")) == beam(
        TABLE, TABLE.start(2), 3, 6, stop=stop_after(3)
    )


def test_filters_are_applied_in_the_order_of_their_fields() -> None:
    settings = SampleConfig(temperature=2.0, top_k=5, top_p=0.9, typical=0.8, min_p=0.1)
    log_probs = TABLE.log_probs(TABLE.start(1))
    wanted = min_p(typical(top_p(top_k(temperature(log_probs, 2.0), 5), 0.9), 0.8), 0.1)
    assert torch.equal(apply(build_filters(settings), log_probs), wanted)
    assert build_filters(SampleConfig()) == []


@pytest.mark.parametrize("settings", [GreedyConfig(max_length=8), SampleConfig(max_length=8), BeamConfig(max_length=8)])
def test_stream_yields_the_ids_of_search(settings: Any) -> None:
    rows: list[list[int]] = [[], []]
    for ids in stream(settings, TABLE, TABLE.start(2), generator()):
        for row, id in zip(rows, ids, strict=True):
            row += [] if id is None else [id]
    assert [tuple(row) for row in rows] == [row[0].ids for row in found(settings)]


def test_no_repeat_forbids_repeated_ngrams() -> None:
    stepper = wrap_stepper(GreedyConfig(no_repeat=2), TABLE)
    assert isinstance(stepper, NoRepeatNgram)
    assert stepper.n == 2
    assert wrap_stepper(GreedyConfig(), TABLE) is TABLE


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (
            {"kind": "beam", "beam_size": 2, "n_best": 3},
            "n_best must be at most beam_size = 2, got 3. Raise beam_size.",
        ),
        ({"kind": "beam", "stop_count": 3}, "stop must be 'count' if stop_count is set, got 'sure'"),
        ({"kind": "diverse", "beam_size": 5, "groups": 2}, "beam_size must be a multiple of groups = 2, got 5"),
        ({"kind": "greedy", "max_length": 3, "min_length": 3}, "max_length must be above min_length = 3, got 3"),
        ({"kind": "sample", "temperature": 0}, "temperature"),
        ({"kind": "sample", "top_p": 1.5}, "top_p"),
        ({"kind": "best"}, "greedy"),
    ],
)
def test_inconsistent_config_raises(data: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        TypeAdapter(SearchConfig).validate_python(data)


def test_stochastic_beam_with_several_generators_raises() -> None:
    with pytest.raises(ConfigError, match="Generator for a stochastic beam, got a list of 2"):
        search(StochasticBeamConfig(), TABLE, TABLE.start(2), [generator(), generator()])


def test_search_config_does_not_import_torch() -> None:
    code = "import sys, catena.search.config; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
