"""Models as automata: the same probabilities, which sum to one."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from catena.errors import DataError, LimitError
from catena.lm.ngram.automaton import compact_automaton, dense_automaton
from catena.lm.ngram.model import NgramModel
from catena.structure.automaton.build import from_string
from catena.structure.automaton.composition import compose
from catena.structure.automaton.distance import total
from tests.lm.ngram.texts import FIRST, sentences, trained
from tests.oracle import ngram as oracle

BACK_OFF = ["modified-kneser-ney", "katz", "witten-bell", "maximum-likelihood"]


def weight(machine, ids: list[int]) -> float:
    return float(total(compose(from_string(ids), machine)))


@pytest.mark.parametrize("estimator", BACK_OFF)
@given(text=sentences.filter(bool), order=st.integers(1, 3))
@settings(max_examples=12)
def test_automaton_weights_of_all_strings_sum_to_one(estimator, text, order):
    model = trained(text, order, estimator=estimator)
    for machine in (dense_automaton(model), compact_automaton(model)):
        assert float(total(machine)) == pytest.approx(0.0, abs=1e-4)


@given(
    text=sentences,
    order=st.integers(1, 4),
    asked=st.lists(st.sampled_from([1, FIRST, FIRST + 1, FIRST + 2]), max_size=6),
)
@settings(max_examples=20)
def test_automaton_weight_of_a_string_is_its_probability(text, order, asked):
    model = trained(text, order)
    names = " ".join(model.vocabulary.tokens(asked))
    wanted = model.score([names])[0]
    assert weight(dense_automaton(model), asked) == pytest.approx(wanted, abs=1e-4)
    assert weight(compact_automaton(model), asked) == pytest.approx(wanted, abs=1e-4)


def test_dense_automaton_has_a_state_for_each_history():
    for order, states in [(1, 1), (2, 1 + 4), (3, 1 + 4 + 16)]:
        machine = dense_automaton(trained([[FIRST]], order))
        assert (machine.n_states, machine.n_arcs) == (states, 4 * states)  # three letters and the unknown word
    with pytest.raises(LimitError, match=r"at most limit = 10 arcs, .* Use compact_automaton"):
        dense_automaton(trained([[FIRST]], 3), limit=10)


def test_compact_automaton_has_the_size_of_the_model_and_raises_if_flat():
    model = trained([[FIRST, FIRST + 1, FIRST]], 3)
    machine = compact_automaton(model)
    assert machine.has_failures
    assert machine.n_states == model.packed.n_states
    with pytest.raises(DataError, match="Use dense_automaton"):
        compact_automaton(trained([[FIRST]], 2, estimator="add-k"))
    flat = trained([[FIRST], [FIRST, 1]], 2, estimator="add-k")
    assert float(total(dense_automaton(flat))) == pytest.approx(0.0, abs=1e-4)


def test_trigram_probability_of_the_dog_ran_away():
    """P(THE DOG RAN AWAY) = P₃(THE DOG RAN) P₃(DOG RAN AWAY) / P₂(DOG RAN), Goodfellow et al. (2016), eq. 12.7.

    P₂(DOG RAN) is the sum of P₃ over the next word, which makes the quotient a conditional probability.
    """
    text = ["THE DOG RAN AWAY", "THE DOG RAN AWAY", "THE DOG RAN HOME", "A DOG RAN AWAY", "THE DOG SAT", "A DOG RAN"]
    counts = oracle.count([line.split() for line in text], 3)
    windows = sum(n for gram, n in counts.items() if len(gram) == 3)

    def joint(*words: str) -> Fraction:
        return Fraction(counts[words], windows)

    starts = Fraction(sum(line.startswith("THE DOG RAN") for line in text), len(text))
    followed = sum(n for gram, n in counts.items() if len(gram) == 3 and gram[:2] == ("DOG", "RAN"))
    ended = Fraction(counts["RAN", "AWAY", oracle.END], counts["RAN", "AWAY"])
    wanted = starts * joint("DOG", "RAN", "AWAY") / Fraction(followed, windows) * ended
    assert wanted == Fraction(3, 10)  # half of the sentences begin so, and 3 of 5 dogs that ran, ran away
    model = NgramModel.train(text, order=3, estimator="maximum-likelihood")
    ids = model.vocabulary.ids(["THE", "DOG", "RAN", "AWAY"])
    assert math.exp(model.score(["THE DOG RAN AWAY"])[0]) == pytest.approx(float(wanted), rel=1e-6)
    assert math.exp(weight(dense_automaton(model), ids)) == pytest.approx(float(wanted), rel=1e-6)
    assert math.exp(weight(compact_automaton(model), ids)) == pytest.approx(float(wanted), rel=1e-6)
    assert model.score(["THE CAT RAN AWAY"]) == [-math.inf]  # "some P is zero": no smoothing, no probability
    smooth = NgramModel.train(text, order=3)
    assert smooth.score(["THE CAT RAN AWAY"])[0] > -math.inf
