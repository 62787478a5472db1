"""Online learning: updates equal a plain implementation, averages are exact, objectives decrease."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest

from catena.errors import DivergedError
from catena.randomness import Randomness
from catena.tasks.tag.config import FeatureTaggerConfig
from catena.tasks.tag.features.learners import BatchLearner, OnlineLearner, build_learner
from catena.tasks.tag.features.likelihood import Likelihood
from tests.oracle.feature_tagger import margin_loss, path_score
from tests.tasks.tag.features.test_likelihood import K, Problem


def online(problem: Problem, structure: str, **values: float) -> OnlineLearner:
    settings = FeatureTaggerConfig(structure=structure, optimizer="sgd", **values)
    return OnlineLearner(problem.data, problem.tags, problem.layout, settings, Randomness(3))


def order_of(problem: Problem, number: int) -> list[int]:
    return Randomness(3).numpy("sentences", number).permutation(problem.data.sentences).tolist()


def uses(problem: Problem, s: int, path: Sequence[int]) -> np.ndarray:
    """The number of times a tag sequence of sentence ``s`` uses each weight."""
    data, layout = problem.data, problem.layout
    found = np.zeros(layout.size)
    for t, tag in enumerate(path):
        i = data.first[s] + t
        for f in data.ids[data.token_first[i] : data.token_first[i + 1]]:
            for p in range(layout.pair_first[f], layout.pair_first[f + 1]):
                found[p] += layout.pair_tag[p] == tag
    for p, q in itertools.pairwise(path):
        layout.transitions(found)[p, q] += 1
    if path:
        layout.start(found)[path[0]] += 1
        layout.end(found)[path[-1]] += 1
    return found


def best_path(problem: Problem, vector: np.ndarray, s: int, cost: float) -> tuple[int, ...]:
    layout = problem.layout
    moves, start, end = (part(vector).tolist() for part in (layout.transitions, layout.start, layout.end))
    tags, scores = problem.sentences(vector)[s]

    def score(path: tuple[int, ...]) -> float:
        wrong = sum(p != q for p, q in zip(path, tags, strict=True))
        return path_score(path, scores, moves, start, end) + cost * wrong

    return max(itertools.product(range(K), repeat=len(tags)), key=score)


def test_perceptron_updates_toward_gold_tags_and_averages() -> None:
    problem = Problem(0)
    learner = online(problem, "perceptron")
    learner.weights += 0.01 * problem.vector  # so that no two sequences tie
    weights, moments = learner.weights.copy(), []
    begin = weights.copy()
    for number in range(3):
        for s in order_of(problem, number):
            tags = problem.sentences(weights)[s][0]
            weights = weights + uses(problem, s, tags) - uses(problem, s, best_path(problem, weights, s, 0.0))
            moments.append(weights)
        learner.step()
    assert learner.weights == pytest.approx(weights, abs=1e-9)
    assert not np.allclose(weights, begin)
    assert learner.vector() == pytest.approx(np.mean(moments, axis=0), abs=1e-9)


def test_margin_updates_from_the_most_violating_tags_and_decays() -> None:
    problem = Problem(1)
    learner = online(problem, "margin", rate=0.5, l2=0.7, cost=2.0)
    learner.weights += 0.01 * problem.vector
    weights, decay = learner.weights.copy(), 2 * 0.7 / problem.data.sentences
    losses = []
    for number in range(2):
        for n, s in enumerate(order_of(problem, number)):
            moment = number * problem.data.sentences + n
            size = 0.5 / (1 + 0.5 * decay * moment)
            tags = problem.sentences(weights)[s][0]
            if not tags:
                weights = weights * (1 - size * decay)
                continue
            losses.append(margin_loss_of(problem, weights, s))
            move = uses(problem, s, tags) - uses(problem, s, best_path(problem, weights, s, 2.0))
            weights = weights * (1 - size * decay) + size * move
        learner.step()
    assert learner.weights == pytest.approx(weights, abs=1e-9)
    assert learner.loss * problem.data.sentences == pytest.approx(sum(losses[len(losses) // 2 :]), abs=1e-9)


def margin_loss_of(problem: Problem, weights: np.ndarray, s: int) -> float:
    layout = problem.layout
    moves, start, end = (part(weights).tolist() for part in (layout.transitions, layout.start, layout.end))
    tags, scores = problem.sentences(weights)[s]
    return margin_loss(tags, scores, moves, start, end, 2.0)


@pytest.mark.parametrize("structure", ["crf", "softmax", "memm"])
@pytest.mark.parametrize("holes", [0.0, 0.4])
def test_sgd_step_follows_the_gradient_of_one_sentence(structure: str, holes: float) -> None:
    problem = Problem(2, holes=holes, lengths=(4,))
    assert (problem.tags >= 0).any()
    learner = online(problem, structure, rate=0.3, l2=0.0)
    learner.weights += problem.vector
    value, gradient = Likelihood(problem.data, problem.tags, problem.layout, structure)(problem.vector)
    learner.step()
    moved = learner.weights - problem.vector
    if structure == "softmax":  # it has only weights of features
        moved, gradient = moved[: problem.layout.pairs], gradient[: problem.layout.pairs]
    assert moved == pytest.approx(-0.3 * gradient, abs=1e-9)
    assert learner.total == pytest.approx(value, abs=1e-9)


def test_sgd_converges_near_the_lbfgs_minimum() -> None:
    problem = Problem(3)
    settings = FeatureTaggerConfig(l2=0.5, tolerance=1e-12)
    function = Likelihood(problem.data, problem.tags, problem.layout, l2=0.5)
    exact = BatchLearner(function, settings)
    for _ in range(200):
        if not exact.step():
            break
    learner = online(problem, "crf", rate=0.3, l2=0.5)
    for _ in range(300):
        learner.step()
    assert function(learner.vector())[0] == pytest.approx(exact.search.objective, rel=1e-3)
    assert function(np.zeros(problem.layout.size))[0] > 1.05 * exact.search.objective


def test_unused_weights_stay_zero() -> None:
    problem = Problem(4)
    problem.layout.in_use[problem.layout.pairs :] = False
    for structure in ("crf", "memm", "perceptron"):
        learner = online(problem, structure)
        learner.step()
        assert (learner.weights[problem.layout.pairs :] == 0).all()
        assert (learner.weights[: problem.layout.pairs] != 0).any()


def test_diverged_weights_are_reported() -> None:
    problem = Problem(5)
    learner = online(problem, "crf", rate=1e6, l2=0.0)
    with pytest.raises(DivergedError, match=r"diverged in pass 1 with model.rate = 1000000.0\. Lower"):
        list(itertools.takewhile(bool, (learner.step() for _ in range(20))))


def test_l1_penalty_gives_exact_zeros() -> None:
    problem = Problem(6, lengths=(4, 4, 5, 3, 5))
    learner = build_learner(
        problem.data, problem.tags, problem.layout, FeatureTaggerConfig(l1=1.0, l2=0.0, tolerance=0.0), Randomness(0)
    )
    while learner.step():
        pass
    zeros = (learner.vector() == 0).mean()
    assert 0.2 < zeros < 1.0


@pytest.mark.parametrize("values", [{"l1": 0.5}, {"structure": "perceptron"}, {"structure": "margin"}])
def test_restored_learner_continues_bit_for_bit(values: dict[str, object]) -> None:
    problem = Problem(7)
    settings = FeatureTaggerConfig(**values, tolerance=0.0)

    def fresh() -> BatchLearner | OnlineLearner:
        learner = build_learner(problem.data, problem.tags, problem.layout, settings, Randomness(1))
        assert isinstance(learner, BatchLearner | OnlineLearner)
        return learner

    whole, half, other = fresh(), fresh(), fresh()
    for _ in range(8):
        whole.step()
    for _ in range(3):
        half.step()
    other.restore({name: np.array(x) for name, x in half.arrays().items()})
    for _ in range(5):
        other.step()
    assert np.array_equal(other.vector(), whole.vector())
    assert other.loss == whole.loss
