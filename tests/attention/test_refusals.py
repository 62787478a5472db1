"""Invalid arguments raise one-sentence errors; a padding mask without a query axis would be broadcast over heads."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from catena.attention.cross import build_cross
from catena.attention.masks import check_attention_mask, padding_mask
from catena.errors import ShapeError

PROGRAM = """
import torch
from catena.attention.base import attend
from catena.attention.masks import padding_mask
from catena.attention.multihead import MultiHeadAttention

heads = MultiHeadAttention(8, 2, d_keys=6).eval()
query, keys = torch.randn(2, 5, 8), torch.randn(2, 4, 6)
real = torch.arange(4) < torch.tensor([[4], [2]])
for call in (heads, heads.with_weights):
    for given in (
        (query, keys, real), (query, keys, real[:, None, None]), (query, keys, real[:, None].float()),
        (query, query, None), (query[0], keys, None), (query, keys[:1], None),
    ):
        try:
            call(*given)
        except Exception as error:
            print(error)
    call(query, keys, padding_mask(torch.tensor([4, 2]), 4))
try:
    attend(keys, keys, keys, torch.ones(4, 4))
except Exception as error:
    print(error)
"""
ERRORS = [
    "mask must have the axes 'b t s' = (2, 5, 4), each of this size or 1, got the shape (2, 4). ",
    "mask must have the axes 'b t s' = (2, 5, 4), each of this size or 1, got the shape (2, 1, 1, 4). ",
    "mask must be bool, True where a query may attend, got torch.float32. Call .bool() first.",
    "keys must have size 6 on axis 'd_keys' of 'b s d_keys', got 8 in shape (2, 5, 8). ",
    "query must have the 3 axes 'b t d', got shape (5, 8). ",
    "keys must have size 2 on axis 'b' of 'b s d_keys', got 1 in shape (1, 4, 6). ",
]


def test_multi_head_attention_invalid_shapes_raise() -> None:
    # In a separate process: in this one the shapes of signatures are checked first.
    run = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=600, check=True)
    expected = [*ERRORS, *ERRORS, "mask must be bool, True where an entry counts, got torch.float32. "]
    for found, wanted in zip(run.stdout.splitlines(), expected, strict=True):
        assert found.startswith(wanted)


def test_check_attention_mask_accepts_axes_of_size_one() -> None:
    for shape in ((2, 5, 4), (1, 5, 4), (2, 1, 4), (1, 1, 1)):
        check_attention_mask(torch.ones(shape, dtype=torch.bool), 2, 5, 4)
    for shape in ((2, 4, 4), (2, 5, 5), (3, 1, 1)):
        with pytest.raises(ShapeError, match="mask must have the axes"):
            check_attention_mask(torch.ones(shape, dtype=torch.bool), 2, 5, 4)


@pytest.mark.parametrize("n_heads", [1, 2])
def test_cross_attention_defaults_to_no_padding_and_steps_from_zero(n_heads: int) -> None:
    torch.manual_seed(1)
    looking = build_cross("additive", 8, 6, n_heads)
    memory, query = torch.randn(3, 5, 6), torch.randn(3, 4, 8)
    whole = looking.prepare(memory, padding_mask(torch.tensor([5, 5, 5]), 5)[:, 0])
    context, weights, *_ = looking(query, whole, torch.arange(4).expand(3, 4))
    found = looking(query, looking.prepare(memory))
    assert torch.equal(found.context, context)
    assert torch.equal(found.weights, weights)


def test_cross_attention_default_steps_move_a_local_window() -> None:
    from catena.attention.local import LocalMonotonic

    looking = build_cross("dot", 6, 6, focus=LocalMonotonic(1))
    memory = torch.randn(1, 9, 6)
    weights = looking(torch.randn(1, 4, 6), looking.prepare(memory)).weights[0, 0]
    assert len(weights) > 0
    for t, row in enumerate(weights):
        assert row.nonzero().flatten().tolist() == list(range(max(t - 1, 0), t + 2))
