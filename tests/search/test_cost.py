"""The cost of a constraint compared to sums over all sequences."""

from __future__ import annotations

import math

import pytest
import torch

from catena.errors import DataError
from catena.niche.verse.acceptor import Line, Verse
from catena.search.constrained import Constrained
from catena.search.cost import KEEPING, estimate_cost
from catena.search.hypothesis import Hypothesis
from catena.search.sampling import sample
from tests.oracle.search import strings
from tests.search.models import random_table

V, END = 4, 3
FORM = Verse([Line("1", "a", (2,)), Line("1", "a")], {0: "1", 1: "1"}, V, {0: "x", 1: "x"})


def test_estimate_cost_equals_sums_over_the_whole_set() -> None:
    model = random_table(V, 2, END, 5)
    mass = divergence = ids = 0.0
    for y in strings(V, END, 3):
        if FORM.accepts(y):
            p, q, state = 1.0, 1.0, model.start(1)
            place = FORM.start()
            for id in (*y, END):
                here = model.log_probs(state)[0].exp()
                options = FORM.options(place)
                allowed = [w for w in range(V) if (options.accepts if w == END else options.needed[w] < 99)]
                p, q = p * float(here[id]), q * float(here[id]) / sum(float(here[w]) for w in allowed)
                if id != END:
                    state, place = model.advance(state, torch.tensor([id])), FORM.step(place, id)
            mass, divergence, ids = mass + p, divergence + q * math.log(q / p), ids + q * (len(y) + 1)
    bound = Constrained(model, FORM)
    drawn = sample(bound, bound.start(1), torch.Generator().manual_seed(1), 9, KEEPING, n=4000)[0]
    cost = estimate_cost(drawn)
    assert cost.least == pytest.approx(-math.log(mass), abs=0.06)
    assert cost.drawn == pytest.approx(divergence, abs=4 * cost.error)
    assert 0 < cost.error < 0.05
    assert cost.ids == pytest.approx(ids) == 4
    assert cost.least <= cost.drawn
    assert cost.factor == pytest.approx(math.exp(divergence / 4), rel=0.05)
    assert cost.perplexity == pytest.approx(math.exp(-sum(h.log_prob for h in drawn) / len(drawn) / 4))
    assert 1 <= cost.effective <= 4000


def test_estimate_cost_without_constraint_is_zero() -> None:
    free = [Hypothesis((0, 1), -2.0, -2.0, True), Hypothesis((1,), -1.0, -1.0, True)]
    cost = estimate_cost(free)
    assert (cost.least, cost.drawn, cost.error, cost.factor) == (0.0, 0.0, 0.0, 1.0)
    assert cost.effective == pytest.approx(2)


def test_estimate_cost_of_too_few_or_unfinished_texts_raises() -> None:
    with pytest.raises(DataError, match="2 or more finished texts, got 1"):
        estimate_cost([Hypothesis((0,), -1.0, -1.0, True)])
    with pytest.raises(DataError, match="Sample more texts, or raise max_length"):
        estimate_cost([Hypothesis((0,), -1.0, -1.0, True), Hypothesis((0,), -1.0, -1.0, False)])
