r"""Filters of the next id's distribution: pure functions from log-probabilities to log-probabilities.

Ids that are filtered out get exactly -inf and the rest is normalized again, so filters compose in any order:
``top_p(temperature(log_probs, 0.7), 0.9)``. At least one possible id of a row remains; a row without possible ids
is unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from catena.errors import ConfigError
from catena.numerics import NEG_INF, log_sum_exp

Filter = Callable[[Float[Tensor, "n v"]], Float[Tensor, "n v"]]

USUAL = 512
"""This many of the most probable ids nearly always have the required mass; only if not, all ids are sorted."""


def log_normalize(scores: Float[Tensor, "n v"]) -> Float[Tensor, "n v"]:
    """Scores to log-probabilities; a row of -inf is unchanged."""
    total = log_sum_exp(scores, dim=-1)[:, None]
    return scores - torch.where(total == NEG_INF, 0.0, total)


def apply(filters: Sequence[Filter], log_probs: Float[Tensor, "n v"]) -> Float[Tensor, "n v"]:
    """Apply the filters one after another."""
    for each in filters:
        log_probs = each(log_probs)
    return log_probs


def temperature(log_probs: Float[Tensor, "n v"], t: float) -> Float[Tensor, "n v"]:
    """p^(1/t), normalized: below 1 sharper, above 1 flatter.

    Args:
        log_probs: log-probabilities of the next id, one row for each prefix.
        t: temperature, above 0.
    """
    if not t > 0:
        raise ConfigError(f"temperature must be above 0, got {t}. Use greedy search for the limit at 0.")
    return log_normalize(log_probs / t)


def top_k(log_probs: Float[Tensor, "n v"], k: int) -> Float[Tensor, "n v"]:
    """The ``k`` most probable ids (Fan et al. 2018), never more than ``k`` if there are ties.

    Args:
        log_probs: log-probabilities of the next id, one row for each prefix.
        k: number of ids to keep.
    """
    if k < 1:
        raise ConfigError(f"top_k must be at least 1, got {k}. Use 1 or more.")
    k = min(k, log_probs.shape[-1])
    return _only(log_probs, log_probs.topk(k).indices, torch.ones(len(log_probs), k, dtype=torch.bool))


def top_p(log_probs: Float[Tensor, "n v"], p: float) -> Float[Tensor, "n v"]:
    """The fewest most probable ids whose total probability is at least ``p`` (Holtzman et al. 2020).

    Args:
        log_probs: log-probabilities of the next id, one row for each prefix.
        p: probability to keep, in (0, 1].
    """
    _check_mass("top_p", p)
    return _first_with_mass(log_probs, log_probs, p)


def typical(log_probs: Float[Tensor, "n v"], p: float) -> Float[Tensor, "n v"]:
    """The fewest ids with surprisal closest to the entropy whose total probability is at least ``p``.

    Meister et al. (2023), section 4.

    Args:
        log_probs: log-probabilities of the next id, one row for each prefix.
        p: probability to keep, in (0, 1].
    """
    _check_mass("typical", p)
    surprise = torch.where(log_probs == NEG_INF, 0.0, -log_probs)
    entropy = (log_probs.exp() * surprise).sum(dim=-1, keepdim=True)
    nearness = -(surprise - entropy).abs()
    return _first_with_mass(log_probs, nearness.masked_fill(log_probs == NEG_INF, NEG_INF), p)


def min_p(log_probs: Float[Tensor, "n v"], p: float) -> Float[Tensor, "n v"]:
    """The ids with at least ``p`` times the largest probability (Nguyen et al. 2024).

    Args:
        log_probs: log-probabilities of the next id, one row for each prefix.
        p: fraction of the largest probability, in (0, 1].
    """
    _check_mass("min_p", p)
    if log_probs.shape[-1] == 0:
        return log_probs
    least = log_probs.amax(dim=-1, keepdim=True) + torch.tensor(p, dtype=torch.float64).log().item()
    return log_normalize(log_probs.masked_fill(log_probs < least, NEG_INF))


def _check_mass(name: str, p: float) -> None:
    if not 0 < p <= 1:
        raise ConfigError(f"{name} must be above 0 and at most 1, got {p}. Use a value such as 0.9.")


def _first_with_mass(log_probs: Tensor, order: Tensor, p: float) -> Tensor:
    """The first ids of ``order`` until their total probability reaches ``p``."""
    v = log_probs.shape[-1]
    for k in sorted({min(USUAL, v), v}):
        places = order.topk(k).indices
        mass = log_probs.gather(1, places).exp()
        before = mass.cumsum(dim=1) - mass
        if k == v or bool((before[:, -1:] >= p).all()):
            break
    return _only(log_probs, places, before < p)


def _only(log_probs: Tensor, places: Int[Tensor, "n k"], kept: Bool[Tensor, "n k"]) -> Tensor:
    some = log_probs.gather(1, places).masked_fill(~kept.to(places.device), NEG_INF)
    return log_normalize(torch.full_like(log_probs, NEG_INF).scatter(1, places, some))
