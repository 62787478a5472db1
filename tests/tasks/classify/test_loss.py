from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from catena.tasks.classify.model import LOSSES, balanced_weights
from tests.oracle import losses as oracle

scores = st.lists(st.floats(-8, 8), min_size=2, max_size=5)


@pytest.mark.parametrize("name", list(LOSSES))
@given(scores=scores, y=st.integers(0, 4), smoothing=st.sampled_from([0.0, 0.1]))
def test_each_loss_is_its_formula(name: str, scores: list[float], y: int, smoothing: float) -> None:
    y %= len(scores)
    logits = torch.tensor([scores], dtype=torch.float64)
    found = LOSSES[name].single(logits, torch.tensor([y]), smoothing)
    assert found.item() == pytest.approx(getattr(oracle, name)(scores, y, smoothing), abs=1e-10)


@pytest.mark.parametrize("name", list(LOSSES))
@given(scores=scores, data=st.data())
def test_each_loss_over_multilabel_is_its_formula(name: str, scores: list[float], data: st.DataObject) -> None:
    right = data.draw(st.lists(st.integers(0, 1), min_size=len(scores), max_size=len(scores)))
    logits = torch.tensor([scores], dtype=torch.float64)
    found = LOSSES[name].several(logits, torch.tensor([right], dtype=torch.float64))
    assert found.item() == pytest.approx(oracle.several(name, scores, right), abs=1e-9)


def test_perceptron_loss_has_a_gradient_at_a_tie() -> None:
    logits = torch.zeros(1, 3, requires_grad=True)
    LOSSES["perceptron"].single(logits, torch.tensor([2]), 0.0).sum().backward()
    assert logits.grad is not None
    assert logits.grad.tolist() == [[1.0, 0.0, -1.0]]


def test_balanced_weights_give_each_class_the_same_total() -> None:
    counts = torch.tensor([90, 10])
    weights = balanced_weights(counts)
    assert (weights * counts).tolist() == pytest.approx([50.0, 50.0])


def test_label_smoothing_has_the_same_minimum_in_all_losses() -> None:
    # The minimum over the logits of a smoothed loss lies where softmax equals the smoothed target.
    target = torch.tensor(oracle.target(3, 1, 0.3), dtype=torch.float64)
    for name in ("cross_entropy", "squared_error"):
        logits = target.log()[None].requires_grad_()
        LOSSES[name].single(logits, torch.tensor([1]), 0.3).sum().backward()
        assert logits.grad is not None
        assert logits.grad.abs().max().item() < 1e-12
