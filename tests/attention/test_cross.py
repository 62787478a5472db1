"""Cross-attention compared to torch, to loops, and row by row."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from catena.attention.cross import CrossAttention, PreparedKeys, build_cross
from catena.attention.scores import SCORES, build_score
from catena.attention.shared import SharedKeys
from catena.errors import ConfigError, ShapeError

LENGTHS = torch.tensor([5, 2, 4])
MASK = torch.arange(5) < LENGTHS[:, None]


def numbers(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def steps(b: int, t: int) -> Tensor:
    return torch.arange(t).expand(b, t)


@pytest.mark.parametrize("n_heads", [2, 4])
def test_cross_attention_with_scaled_score_equals_torch(n_heads: int) -> None:
    ours = build_cross("scaled", 8, 6, n_heads).double()
    theirs = nn.MultiheadAttention(8, n_heads, kdim=6, vdim=6, batch_first=True).double()
    assert ours.query is not None
    assert ours.keys is not None
    assert ours.values is not None
    assert ours.output is not None
    with torch.no_grad():
        for layer in (ours.query, ours.keys, ours.values, ours.output):
            layer.bias.normal_()
        theirs.q_proj_weight.copy_(ours.query.weight)
        theirs.k_proj_weight.copy_(ours.keys.weight)
        theirs.v_proj_weight.copy_(ours.values.weight)
        theirs.in_proj_bias.copy_(torch.cat((ours.query.bias, ours.keys.bias, ours.values.bias)))
        theirs.out_proj.load_state_dict(ours.output.state_dict())
    results = []
    for model in (ours, theirs):
        torch.manual_seed(1)
        query, memory = numbers(3, 4, 8).requires_grad_(), numbers(3, 5, 6).requires_grad_()
        if model is ours:
            context, weights, *_ = ours(query, ours.prepare(memory, MASK), steps(3, 4))
        else:
            context, weights = theirs(query, memory, memory, key_padding_mask=~MASK, average_attn_weights=False)
        results.append((context, weights, *torch.autograd.grad((context**3).sum(), (query, memory))))
    for found, wanted in zip(*results, strict=True):
        assert torch.allclose(found, wanted, rtol=0, atol=1e-10)


def test_cross_attention_divides_the_inner_size_among_heads() -> None:
    for n_heads, d, inner in ((1, 8, 8), (2, 8, 4), (3, 2, 1), (2, None, 3)):
        looking = build_cross("additive", 6, 4, n_heads, d)
        assert [len(score.weight) for score in looking.scores] == [inner] * n_heads


@pytest.mark.parametrize("name", list(SCORES))
def test_cross_attention_each_head_has_its_own_score(name: str) -> None:
    looking = build_cross(name, 6, 4, 2, 4).double()
    query, memory = numbers(3, 2, 6), numbers(3, 5, 4)
    context, weights, log_prob, _ = looking(query, looking.prepare(memory, MASK), steps(3, 2))
    assert context.shape == (3, 2, 6)
    assert weights.shape == (3, 2, 2, 5)
    assert log_prob is None
    maps = [layer for layer in (looking.query, looking.keys, looking.values, looking.output) if layer is not None]
    for b in range(3):
        for t in range(2):
            found = []
            for h in range(2):
                part = slice(3 * h, 3 * h + 3)
                q, ks, vs = (
                    layer(x)[..., part] for layer, x in zip(maps, (query[b, t], memory[b], memory[b]), strict=False)
                )
                scores = [float(looking.scores[h](q[None], k[None]).detach()) for k in ks[: LENGTHS[b]]]
                weight = torch.softmax(torch.tensor(scores, dtype=torch.float64), 0)
                assert torch.allclose(weights[b, h, t, : LENGTHS[b]], weight, atol=1e-10)
                found.append(sum(w * v for w, v in zip(weight, vs, strict=False)))
            assert torch.allclose(context[b, t], maps[3](torch.cat(found)), atol=1e-10)


def test_cross_attention_with_one_head_uses_states_without_projection() -> None:
    looking = build_cross("bilinear", 3, 4).double()
    query, memory = numbers(3, 2, 3), numbers(3, 5, 4)
    context, weights, *_ = looking(query, looking.prepare(memory, MASK), steps(3, 2))
    assert looking.d_out == 4
    assert torch.allclose(context, weights[:, 0] @ memory)
    assert (weights[:, 0].transpose(1, 2)[~MASK] == 0).all()


def test_cross_attention_invalid_number_of_heads_raises() -> None:
    with pytest.raises(ShapeError, match="d_query must be divisible by n_heads = 4, got 6"):
        build_cross("dot", 6, 6, 4)
    with pytest.raises(ConfigError, match=r"one head if apart = True, got 2"):
        CrossAttention(4, 4, [build_score("dot", 2, 2)] * 2, apart=True)


# --- rows with common sources -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_heads", [1, 2])
@pytest.mark.parametrize(
    "sources", [[0, 1, 2], [0, 0, 1, 1, 2, 2], [2, 0, 2, 2, 1], [1], [1, 1], [2, 2, 0], [0, 0, 1, 1], []]
)
def test_shared_keys_rows_attend_to_their_own_sources(sources: list[int], n_heads: int) -> None:
    looking = build_cross("additive", 4, 4, n_heads).double()
    keys = looking.prepare(numbers(3, 5, 4), MASK)
    rows = torch.tensor(sources, dtype=torch.int64)
    query, step = numbers(len(rows), 1, 4), torch.zeros(len(rows), 1, dtype=torch.int64)
    found = SharedKeys.of(keys, rows).look(looking, query, step)
    wanted = looking(query, keys.select(rows), step)
    assert torch.allclose(found.context, wanted.context, atol=1e-12)
    assert torch.allclose(found.weights, wanted.weights, atol=1e-12)


def test_shared_keys_are_not_copied_while_most_sources_have_rows() -> None:
    keys = PreparedKeys((numbers(4, 5, 2),), (numbers(4, 5, 2),), torch.ones(4, 5, dtype=torch.bool))
    beam = SharedKeys.of(keys, torch.tensor([0, 0, 1, 1, 2, 2, 3, 3]))
    assert beam.keys is keys
    assert beam.places is None
    fewer = SharedKeys.of(keys, torch.tensor([3, 0, 1, 3]))
    assert fewer.keys is keys
    few = SharedKeys.of(keys, torch.tensor([3, 1, 3]))
    assert len(few.keys) == 2
    assert few.sources.tolist() == [1, 0, 1]
    assert torch.equal(few.keys.values[0], keys.values[0][[1, 3]])
