"""Weights of logits and retrieval scores: candidates by hand, and the likelihood at the optimum."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from catena.errors import DataError
from catena.tasks.read.answers import AnswerFinder, ReadingOptions, WindowLogits
from catena.tasks.read.calibration import fit_mixture, fit_scale, score_candidates
from catena.tasks.read.data import ReadingTexts
from tests.tasks.read.samples import encoding, example, model

ENCODING = encoding()


def test_candidates_are_the_best_correct_span_and_wrong_ones() -> None:
    encoded = ReadingTexts(ENCODING, ["the b", "b c"], ["x"])
    windows = [encoded.windows(i, 400, 200, 1)[0] for i in range(2)]
    logits = [
        WindowLogits(0, windows[0], torch.tensor([1.0, 2.0]), torch.zeros(2), -math.inf),
        WindowLogits(1, windows[1], torch.tensor([5.0, 7.0]), torch.zeros(2), -math.inf),
    ]
    found = score_candidates(encoded, logits, ["B."], {0: 0.5, 1: 0.25}, 1)
    assert found is not None
    assert found[0].tolist() == [5.0, 0.25]
    assert sorted(map(tuple, found[1:].tolist())) == [(1.0, 0.5), (7.0, 0.25)]
    assert score_candidates(encoded, logits, ["z"], {}, 1) is None
    assert score_candidates(encoded, logits, ["b", "c", "the"], {}, 1) is None


def test_mixture_finds_the_generating_weights() -> None:
    """Candidates sampled from a known mixture give back its weights."""
    rng = np.random.default_rng(0)
    alpha, beta = 0.7, 1.9
    tables = []
    for _ in range(600):
        scores = rng.normal(size=(6, 2))
        logits = alpha * scores[:, 0] + beta * scores[:, 1]
        p = np.exp(logits - logits.max())
        chosen = rng.choice(6, p=p / p.sum())
        tables.append(np.concatenate((scores[chosen : chosen + 1], np.delete(scores, chosen, 0))))
    weights = fit_mixture(tables)
    assert weights.spans == pytest.approx(alpha, abs=0.2)
    assert weights.retrieval == pytest.approx(beta, abs=0.3)


def test_weights_of_a_wrong_model_raise() -> None:
    with pytest.raises(DataError, match="need a question whose answer was found, got none"):
        fit_mixture([])
    with pytest.raises(DataError, match="weight of spans must be positive, got -"):
        fit_mixture([np.array([[0.0, 0.0], [1.0, 0.0]])] * 5)


def test_fitted_scale_does_not_depend_on_the_scale_of_the_model() -> None:
    """A model whose logits are twice as large gets half of the factor."""
    torch.manual_seed(3)
    network = model(ENCODING).double()
    finder = AnswerFinder(network, ENCODING, ReadingOptions(max_answer=2))
    examples = []
    for context in ("Ada met Zoë in Łódź .", "a b c d e f g"):
        best = finder.find("Who ?", [context]).text
        examples.append(example(context, "Who ?", best))
        examples.append(example(context, "Who ?", context.split()[-2]))
    scale = fit_scale(finder, examples)
    with torch.no_grad():
        for layer in (network.output.start_score, network.output.end_score):
            layer.weight.mul_(2.0)
    assert fit_scale(finder, examples) == pytest.approx(scale / 2, rel=1e-3)
