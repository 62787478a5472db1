"""Dual encoders: matches and losses compared with loops, padding, and the log-linear mixture."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from catena.embeddings.table import EmbeddingTable
from catena.encoders.config import ConvolutionConfig, RecurrentConfig
from catena.errors import DataError
from catena.retrieval.config import DualEncoderConfig, DualPoolingConfig, NoEncoderConfig
from catena.retrieval.dual import DualEncoder, binary_loss, softmax_loss
from catena.retrieval.mixing import fit_weights
from tests.oracle import retrieval as oracle

SIZES = 7, 4
IDS = torch.tensor([[2, 3, 4, 0], [5, 6, 0, 0], [3, 3, 3, 3]])
LENGTHS = torch.tensor([3, 2, 4])


def built(settings: DualEncoderConfig) -> DualEncoder:
    rarity = torch.linspace(0.5, 2, SIZES[0])
    return DualEncoder(settings, EmbeddingTable(*SIZES), rarity).double().eval()


def test_idf_pooling_is_weighted_mean() -> None:
    model = built(DualEncoderConfig(match="dot", pooling=DualPoolingConfig(kind="idf")))
    table, weights = model.embedding.weight, torch.linspace(0.5, 2, SIZES[0]).double()
    assert torch.equal(model.response.pooling.weight, weights)
    weights[3] = model.response.pooling.weight.data[3] = -0.7  # trained weights may be negative
    for row, n, found in zip(IDS, LENGTHS, model.keys(IDS, LENGTHS), strict=True):
        own = [int(i) for i in row[:n]]
        total = sum(abs(float(weights[i])) for i in own)
        expected = sum(float(weights[i]) * table[i] for i in own) / total
        assert torch.allclose(found, expected, atol=1e-12)


def test_three_matches_equal_their_formulas() -> None:
    for match, projection in (("bilinear", None), ("dot", None), ("cosine", None), ("cosine", 3)):
        model = built(DualEncoderConfig(match=match, projection=projection, temperature=0.5))
        if model.matrix is not None:
            torch.nn.init.normal_(model.matrix)
        if model.maps is not None:
            first, second = (one.weight.data for one in model.maps)
            assert torch.equal(first, second), "at first the match of the vectors themselves"
            assert torch.allclose(first @ first.T, torch.eye(3).double(), atol=1e-6)
            torch.nn.init.normal_(second)
        plain = model.context(model.embedding(IDS), IDS, LENGTHS)
        sides = [plain, plain] if model.maps is None else [plain @ one.weight.T for one in model.maps]
        found = model.queries(IDS, LENGTHS) @ model.keys(IDS, LENGTHS).T
        for i in range(3):
            for j in range(3):
                c, r = sides[0][i], sides[1][j]
                expected = c @ r if model.matrix is None else c @ model.matrix @ r
                if match == "cosine":
                    expected = expected / (c.norm() * r.norm()) / 0.5
                assert found[i, j].item() == pytest.approx(expected.item(), abs=1e-7)


@pytest.mark.parametrize(
    "encoder", [NoEncoderConfig(), RecurrentConfig(d=3), ConvolutionConfig(windows=(2,), filters=3)]
)
@pytest.mark.parametrize("pooling", ["idf", "mean", "max", "attention"])
def test_padding_changes_nothing(encoder: NoEncoderConfig, pooling: str) -> None:
    model = built(DualEncoderConfig(encoder=encoder, pooling=DualPoolingConfig(kind=pooling), shared=False))
    together = model.queries(IDS, LENGTHS), model.keys(IDS, LENGTHS)
    for i, n in enumerate(LENGTHS.tolist()):
        alone = IDS[i : i + 1, :n], LENGTHS[i : i + 1]
        assert torch.allclose(model.queries(*alone), together[0][i : i + 1], atol=1e-12)
        assert torch.allclose(model.keys(*alone), together[1][i : i + 1], atol=1e-12)


def test_shared_uses_one_encoder_for_both_sides() -> None:
    encoder = RecurrentConfig(d=3)
    one, two = built(DualEncoderConfig(encoder=encoder)), built(DualEncoderConfig(encoder=encoder, shared=False))
    assert one.context is one.response
    assert two.context is not two.response


def test_losses_equal_loops() -> None:
    torch.manual_seed(1)
    scores = torch.randn(4, 6, dtype=torch.float64)
    allowed = torch.rand(4, 6) < 0.7
    expected = oracle.softmax_loss(scores.tolist(), allowed.tolist())
    assert float(softmax_loss(scores, allowed)) == pytest.approx(expected, abs=1e-12)
    labels = torch.tensor([1.0, 0.0, 1.0, 0.0], dtype=torch.float64)
    expected = oracle.binary_loss(scores[:, 0].tolist(), labels.tolist())
    assert float(binary_loss(scores[:, 0], labels)) == pytest.approx(expected, abs=1e-12)


def test_softmax_loss_of_one_context_is_zero() -> None:
    scores = torch.randn(1, 1, requires_grad=True)
    loss = softmax_loss(scores, torch.zeros(1, 1, dtype=torch.bool))
    loss.backward()
    assert loss.item() == 0.0
    assert torch.isfinite(scores.grad).all()


def test_inconsistent_configs_raise() -> None:
    with pytest.raises(ValidationError, match="projection must be unset with match = 'bilinear', got 3"):
        DualEncoderConfig(projection=3)
    with pytest.raises(ValidationError, match=r"encoder\.kind must be bidirectional .* got 'none'"):
        DualEncoderConfig(pooling=DualPoolingConfig(kind="ends"))


# --- mixtures ---------------------------------------------------------------------------------------------------------


def _loss(questions: list[np.ndarray], weights: np.ndarray) -> float:
    total = 0.0
    for q in questions:
        scores = q @ weights
        total += float(np.log(np.exp(scores).sum()) - scores[0])
    return total / len(questions)


def test_mixture_weights_are_optimal() -> None:
    generator = np.random.default_rng(3)
    questions = [generator.normal(size=(5, 3)) * [1, 10, 0.1] for _ in range(40)]
    for q in questions:
        q[0] += [0.7, 0.0, 0.05]
    weights, loss = fit_weights(questions, penalty=0.0)
    assert loss == pytest.approx(_loss(questions, weights), abs=1e-9)
    for k in range(3):
        for step in (1e-3, -1e-3):
            moved = weights.copy()
            moved[k] += step
            assert _loss(questions, moved) > loss
    assert np.abs(fit_weights(questions, penalty=10.0)[0]).sum() < np.abs(weights).sum()


def test_mixture_is_invariant_to_score_units() -> None:
    """The penalty applies to scores scaled to vary by 1: neither units nor offsets common to a question matter."""
    generator = np.random.default_rng(4)
    questions = [generator.normal(size=(4, 2)) + np.array([[0.5, 0.2], [0, 0], [0, 0], [0, 0]]) for _ in range(30)]
    weights, loss = fit_weights(questions, penalty=0.3)
    assert loss == pytest.approx(_loss(questions, weights), abs=1e-9)
    units = np.array([1000.0, 0.01])
    moved = [q * units + 500.0 * generator.normal(size=2) for q in questions]
    others, same = fit_weights(moved, penalty=0.3)
    assert others * units == pytest.approx(weights, rel=1e-6)
    assert same == pytest.approx(loss, abs=1e-9)
    spread = np.sqrt(np.mean(np.concatenate([q - q.mean(0) for q in questions]) ** 2, axis=0))
    for k in range(2):
        for step in (1e-3, -1e-3):
            near = weights.copy()
            near[k] += step
            assert (
                _loss(questions, near) + 0.3 * ((near * spread) ** 2).sum()
                > loss + 0.3 * ((weights * spread) ** 2).sum()
            )


def test_mixture_edge_cases() -> None:
    useless = [np.ones((4, 2)) for _ in range(3)]
    assert fit_weights(useless)[0].tolist() == [0, 0]
    sure = [np.array([[1.0], [0.0]]) for _ in range(3)]
    weights, loss = fit_weights(sure)
    assert weights[0] > 1
    assert np.isfinite(loss)
    mixed = [np.array([[1.0, 1.0, 3.0], [0.0, 0.0, 3.0], [2.0, 2.0, 3.0]]), np.array([[1.0, 1, 3], [0.2, 0.2, 3]])]
    alone, best = fit_weights([q[:, :1] for q in mixed], penalty=0.0)
    weights, loss = fit_weights(mixed, penalty=0.0)
    assert weights == pytest.approx([alone[0] / 2, alone[0] / 2, 0.0]), (
        "two that agree share, one that is flat has none"
    )
    assert loss == pytest.approx(best)
    with pytest.raises(DataError, match="without a question"):
        fit_weights([])
