"""Reference implementation of the likelihood of a softmax layer."""

from __future__ import annotations

import torch
from torch import Tensor

_HALVES = (torch.bfloat16, torch.float16)


def log_probs_reference(hidden: Tensor, weight: Tensor, bias: Tensor | None, scale: float) -> Tensor:
    """log softmax of all rows at once, in float32 at least: what the blocks compute, and what defines right."""
    logits = torch.nn.functional.linear(hidden, weight, None if bias is None else bias.to(hidden.dtype))
    return torch.log_softmax(logits.to(wide(logits.dtype)) * scale, dim=-1)


def log_prob_reference(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, scale: float, dtype: torch.dtype
) -> Tensor:
    """log p(target) of each row, by the logits of all rows at once; products are of factors in ``dtype``."""
    with torch.autocast(hidden.device.type, enabled=False):
        found = log_probs_reference(hidden.to(dtype), weight.to(dtype), bias, scale)
    return found.gather(1, targets[:, None]).squeeze(1)


def wide(dtype: torch.dtype) -> torch.dtype:
    """The dtype that sums are taken in."""
    return torch.float32 if dtype in _HALVES else dtype
