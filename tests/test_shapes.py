"""Axes are matched by letter, and lengths become masks."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from catena.errors import ShapeError
from catena.shapes import checked_lengths, mask_from_lengths, match_shape


def test_match_shape_returns_sizes_of_letters() -> None:
    assert match_shape("emissions", (2, 5, 9), "b t k") == {"b": 2, "t": 5, "k": 9}
    assert match_shape("emissions", (2, 5, 9), "b t k", k=9, d=4) == {"b": 2, "t": 5, "k": 9}
    assert match_shape("transitions", (4, 4), "k k") == {"k": 4}
    assert match_shape("total", (), "") == {}
    assert match_shape("ids", torch.zeros(2, 3).shape, "b t") == {"b": 2, "t": 3}


def test_match_shape_mismatch_raises() -> None:
    with pytest.raises(ShapeError, match=r"^emissions must have the 3 axes 'b t k', got shape \(2, 5\)\. Add"):
        match_shape("emissions", (2, 5), "b t k")
    with pytest.raises(
        ShapeError,
        match=r"^emissions must have size 8 on axis 'k' of 'b t k', got 9 in shape \(2, 5, 9\)\. Check",
    ):
        match_shape("emissions", (2, 5, 9), "b t k", k=8)
    with pytest.raises(ShapeError, match=r"^transitions must have size 4 on axis 'k' of 'k k', got 3"):
        match_shape("transitions", (4, 3), "k k")


def test_mask_from_lengths_is_true_at_real_positions() -> None:
    mask = mask_from_lengths(torch.tensor([0, 2, 3]), 3)
    assert mask.tolist() == [[False, False, False], [True, True, False], [True, True, True]]
    assert mask.dtype == torch.bool


def test_mask_from_lengths_with_any_batch_axes() -> None:
    assert mask_from_lengths(torch.tensor(2), 3).tolist() == [True, True, False]
    lengths = torch.tensor([[1, 2], [3, 0]], dtype=torch.int32)
    mask = mask_from_lengths(lengths, 4)
    assert mask.shape == (2, 2, 4)
    assert torch.equal(mask.sum(-1), lengths)
    assert mask_from_lengths(torch.tensor([5]), 3).tolist() == [[True, True, True]]
    assert mask_from_lengths(torch.tensor([], dtype=torch.int64), 3).shape == (0, 3)


@pytest.mark.parametrize("wrong", [-1, 4])
def test_lengths_out_of_range_are_rejected_on_every_device(device: str, wrong: int) -> None:
    if device == "cpu":
        with pytest.raises(ShapeError, match=rf"lengths must be from 0 to 3, .*, got {wrong}\."):
            checked_lengths("lengths", torch.tensor([2, wrong]), 3)
        return
    # A device-side assertion ends all work of its process on that GPU, so it gets a process of its own.
    code = (
        "import torch\nfrom catena.shapes import checked_lengths\n"
        f"lengths = checked_lengths('lengths', torch.tensor([2, {wrong}], device='cuda'), 3)\ntorch.cuda.synchronize()"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode != 0
    assert "device-side assert" in run.stderr
