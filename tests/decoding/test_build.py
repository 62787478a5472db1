"""Settings of searches, and the searches that they stand for."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from typing import Any

import pytest
import torch
from pydantic import TypeAdapter, ValidationError

from catena.decoding.beam import beam
from catena.decoding.build import build_filters, prepared, search, stream
from catena.decoding.diverse import diverse_beam
from catena.decoding.filters import apply, min_p, nucleus, temperature, top_k, typical
from catena.decoding.greedy import greedy
from catena.decoding.ranking import after, at_max_length, by_average, by_gnmt
from catena.decoding.repeats import NoRepeat
from catena.decoding.sample import sample
from catena.decoding.settings import (
    BeamSettings,
    DiverseSettings,
    GreedySettings,
    SampleSettings,
    SearchSettings,
    StochasticSettings,
)
from catena.decoding.stochastic import stochastic_beam
from catena.errors import ConfigError
from tests.decoding.models import random_table

TABLE = random_table(6, 2, end=5, seed=4)


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(3)


def found(settings: Any) -> Any:
    return search(settings, TABLE, TABLE.start(2), generator())


def test_settings_name_their_searches() -> None:
    start = TABLE.start(2)
    assert found(GreedySettings(max_length=7, min_length=2)) == greedy(TABLE, start, 7, 2)
    wanted = sample(TABLE, start, generator(), 7, [partial(temperature, t=0.5), partial(top_k, k=3)], 1, 4)
    assert found(SampleSettings(max_length=7, min_length=1, temperature=0.5, top_k=3, n=4)) == wanted
    wide = BeamSettings(width=4, n_best=3, max_length=6, normalise="gnmt", alpha=0.9)
    assert found(wide) == beam(TABLE, start, 4, 6, n_best=3, normalise=by_gnmt(0.9))
    counted = BeamSettings(width=3, max_length=6, normalise="average", stop="count", stop_count=1)
    assert found(counted) == beam(TABLE, start, 3, 6, normalise=by_average, stop=after(1))
    long = BeamSettings(width=3, max_length=6, min_length=1, stop="length")
    assert found(long) == beam(TABLE, start, 3, 6, 1, stop=at_max_length)
    groups = DiverseSettings(width=4, groups=2, strength=2.0, n_best=4, max_length=5)
    assert found(groups) == diverse_beam(TABLE, start, 4, 2, 5, 2.0, n_best=4)
    drawn = stochastic_beam(TABLE, start, generator(), 3, 5, [partial(nucleus, p=0.8)])
    assert found(StochasticSettings(n=3, max_length=5, nucleus=0.8)) == [row.hypotheses for row in drawn]


def test_count_means_the_width_where_no_number_is_given() -> None:
    assert found(BeamSettings(width=3, max_length=6, stop="count")) == beam(TABLE, TABLE.start(2), 3, 6, stop=after(3))


def test_filters_are_applied_in_the_order_of_their_fields() -> None:
    settings = SampleSettings(temperature=2.0, top_k=5, nucleus=0.9, typical=0.8, min_p=0.1)
    log_probs = TABLE.log_probs(TABLE.start(1))
    wanted = min_p(typical(nucleus(top_k(temperature(log_probs, 2.0), 5), 0.9), 0.8), 0.1)
    assert torch.equal(apply(build_filters(settings), log_probs), wanted)
    assert build_filters(SampleSettings()) == []


@pytest.mark.parametrize(
    "settings", [GreedySettings(max_length=8), SampleSettings(max_length=8), BeamSettings(max_length=8)]
)
def test_streams_give_what_searches_give(settings: Any) -> None:
    rows: list[list[int]] = [[], []]
    for ids in stream(settings, TABLE, TABLE.start(2), generator()):
        for row, id in zip(rows, ids, strict=True):
            row += [] if id is None else [id]
    assert [tuple(row) for row in rows] == [row[0].ids for row in found(settings)]


def test_what_must_not_be_repeated_is_impossible() -> None:
    stepper = prepared(GreedySettings(no_repeat=2), TABLE)
    assert isinstance(stepper, NoRepeat)
    assert stepper.n == 2
    assert prepared(GreedySettings(), TABLE) is TABLE


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"kind": "beam", "width": 2, "n_best": 3}, "n_best = 3 needs a beam as wide: make width = 2 at least that"),
        ({"kind": "beam", "stop_count": 3}, "stop_count = 3 is for stop = 'count', but stop is 'sure'"),
        ({"kind": "diverse", "width": 5, "groups": 2}, "width = 5 must be a multiple of groups = 2"),
        ({"kind": "greedy", "max_length": 3, "min_length": 3}, "max_length = 3 must hold min_length = 3 tokens"),
        ({"kind": "sample", "temperature": 0}, "temperature"),
        ({"kind": "sample", "nucleus": 1.5}, "nucleus"),
        ({"kind": "best"}, "greedy"),
    ],
)
def test_settings_that_do_not_fit_are_refused(data: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        TypeAdapter(SearchSettings).validate_python(data)


def test_a_stochastic_beam_has_one_generator() -> None:
    with pytest.raises(ConfigError, match="one generator for all rows, but 2 are given"):
        search(StochasticSettings(), TABLE, TABLE.start(2), [generator(), generator()])


def test_settings_need_no_torch() -> None:
    code = "import sys, catena.decoding.settings; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
