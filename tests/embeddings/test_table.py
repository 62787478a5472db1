"""Embedding tables: padding stays zero, frozen rows are kept, unknown rows have the right variance."""

from __future__ import annotations

import math

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor

from catena.embeddings.config import EmbeddingConfig
from catena.embeddings.table import EmbeddingTable, MultichannelTable, build_embedding
from catena.errors import ConfigError, DataError, ShapeError

IDS = torch.tensor([[2, 3, 0], [4, 0, 0]])


def generator(seed: int = 1) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def vectors(n: int = 6, d: int = 4, known: tuple[int, ...] = (2, 3)) -> tuple[Tensor, Tensor]:
    matrix = torch.randn(n, d, generator=generator(9))
    mask = torch.zeros(n, dtype=torch.bool)
    mask[list(known)] = True
    return matrix, mask


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.AdamW, torch.optim.Adadelta])
def test_embedding_padding_row_stays_zero(optimizer: type[torch.optim.Optimizer]) -> None:
    matrix, known = vectors(known=(0, 2, 3))
    for table in (EmbeddingTable(6, 4), EmbeddingTable.from_matrix(matrix, known)):
        assert torch.equal(table.weight[0], torch.zeros(4))
        before = table.weight.detach().clone()
        steps = optimizer([table.weight], lr=0.5, weight_decay=0.1)
        for _ in range(3):
            steps.zero_grad()
            (table(IDS) - 1).square().sum().backward()
            steps.step()
        assert torch.equal(table.weight[0], torch.zeros(4))
        assert not torch.equal(table.weight[2:5], before[2:5])


def test_embedding_pad_id_may_be_another_id_or_none() -> None:
    assert torch.equal(EmbeddingTable(5, 3, pad_id=4).weight[4], torch.zeros(3))
    assert EmbeddingTable(5, 3, pad_id=4).weight[0].abs().min() > 0
    assert EmbeddingTable(5, 3, pad_id=None).weight.abs().min() > 0


def test_embedding_returns_the_row_of_each_id() -> None:
    table = EmbeddingTable(6, 4)
    out = table(IDS)
    for b in range(2):
        for t in range(3):
            assert torch.equal(out[b, t], table.weight[IDS[b, t]])
    assert table.d_out == 4


@pytest.mark.parametrize("wrong", [-100, 5])
def test_embedding_ids_out_of_range_raise(wrong: int) -> None:
    with pytest.raises(DataError, match=f"ids must be from 0 to 4, .* got {min(wrong, 1)} to {max(wrong, 1)}. Make"):
        EmbeddingTable(5, 3)(torch.tensor([[1, wrong]]))


def test_embedding_random_rows_are_uniform() -> None:
    weight = EmbeddingTable(2000, 50, scale=0.25, generator=generator()).weight[1:]
    assert -0.25 <= weight.min() < -0.249
    assert 0.249 < weight.max() <= 0.25
    assert weight.var().item() == pytest.approx(0.25**2 / 3, rel=0.02)


def test_embedding_rows_depend_on_the_generator() -> None:
    one, two = (EmbeddingTable(9, 4, generator=generator(5)).weight for _ in range(2))
    assert torch.equal(one, two)
    assert not torch.equal(one, EmbeddingTable(9, 4, generator=generator(6)).weight)


def test_from_matrix_keeps_known_rows_and_matches_their_variance() -> None:
    n, d = 4000, 30
    matrix = 3.0 * torch.randn(n, d, generator=generator(2)) + 1.0
    known = torch.arange(n) % 2 == 0
    table = EmbeddingTable.from_matrix(matrix, known, generator=generator())
    assert torch.equal(table.weight[known][1:], matrix[known][1:])
    drawn = table.weight[~known]
    assert drawn.var().item() == pytest.approx(matrix[known].var().item(), rel=0.02)
    assert drawn.abs().max().item() <= math.sqrt(3 * matrix[known].var().item())


def test_from_matrix_without_known_rows_uses_scale() -> None:
    matrix, known = vectors(n=500, known=())
    weight = EmbeddingTable.from_matrix(matrix, known, scale=0.1).weight
    assert 0.09 < weight.abs().max() <= 0.1


def test_embedding_frozen_rows_do_not_change() -> None:
    table = EmbeddingTable(6, 4, frozen=True)
    assert not table.weight.requires_grad
    assert not table(IDS).requires_grad


def test_multichannel_channels_start_equal_and_one_is_trained() -> None:
    matrix, known = vectors()
    table = MultichannelTable(matrix, known)
    static, tuned = table.channels(IDS)
    assert torch.equal(static, tuned)
    assert torch.equal(static[0, 0], matrix[2])
    assert torch.equal(table(IDS), torch.cat((static, tuned), dim=-1))
    assert table.d_out == 8
    (table(IDS) - 1).square().sum().backward()
    torch.optim.SGD([p for p in table.parameters() if p.requires_grad], lr=0.5).step()
    static_after, tuned_after = table.channels(IDS)
    assert torch.equal(static_after, static)
    assert not torch.equal(tuned_after[0, 0], tuned[0, 0])
    assert torch.equal(table(IDS)[1, 1], torch.zeros(8))


def test_embedding_dropout_keeps_the_mean() -> None:
    ids = torch.ones(40, 50, dtype=torch.int64)
    features = EmbeddingTable(2, 20, dropout=0.25, generator=generator())
    tokens = EmbeddingTable(2, 20, token_dropout=0.25, generator=generator())
    row = features.weight[1]
    for table in (features, tokens):
        out = table(ids)
        assert (out == 0).float().mean().item() == pytest.approx(0.25, abs=0.05)
        kept = out != 0
        assert torch.allclose(out[kept], (row / 0.75).expand_as(out)[kept])
        table.eval()
        assert torch.equal(table(ids), row.expand_as(out))
    features.train()
    tokens.train()
    zeros_in_a_token = (tokens(ids) == 0).sum(dim=-1)
    assert set(zeros_in_a_token.flatten().tolist()) == {0, 20}
    assert (features(ids) == 0).sum(dim=-1).max() < 20


@pytest.mark.parametrize("mode", ["random", "static", "tuned", "multichannel"])
def test_build_embedding_from_config(mode: str) -> None:
    options = {"d": 4, "mode": mode, "dropout": 0.5, "token_dropout": 0.1}
    settings = EmbeddingConfig.model_validate({**options, "vectors": None if mode == "random" else "file.vec"})
    matrix, known = vectors()
    table = build_embedding(settings, 6, matrix=matrix, known=known, generator=generator())
    learned = [p.requires_grad for p in table.parameters()]
    assert learned == {"random": [True], "static": [False], "tuned": [True], "multichannel": [False, True]}[mode]
    assert table.d_out == (8 if mode == "multichannel" else 4)
    assert (table.drop.features, table.drop.tokens) == (0.5, 0.1)
    same_row = torch.equal(next(table.parameters())[2], matrix[2])
    assert same_row == (mode != "random")
    again = build_embedding(settings, 6, matrix=matrix, known=known, generator=generator())
    assert all(torch.equal(a, b) for a, b in zip(table.parameters(), again.parameters(), strict=True))


def test_build_embedding_invalid_vectors_raise() -> None:
    settings = EmbeddingConfig(d=5, mode="tuned", vectors="file.vec")
    matrix, known = vectors()
    with pytest.raises(ShapeError, match=r"shape \(n, d\) = \(6, 5\), got \(6, 4\). Set d"):
        build_embedding(settings, 6, matrix=matrix, known=known)
    with pytest.raises(ConfigError, match="must be given for mode = 'tuned', got None"):
        build_embedding(settings, 6)


def test_embedding_config_inconsistent_mode_and_vectors_raise() -> None:
    with pytest.raises(
        ValidationError, match=r"vectors must be a file of word vectors for mode = 'static', got nothing"
    ):
        EmbeddingConfig(mode="static")
    with pytest.raises(ValidationError, match=r"got 'random' and vectors = 'x\.vec'\. Set mode"):
        EmbeddingConfig(vectors="x.vec")
