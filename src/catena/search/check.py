"""Checks that a custom stepper follows the rules that searches rely on.

A search trusts its stepper: one that does not reorder its state, or returns logits instead of log-probabilities,
silently produces wrong sequences. The check runs a few steps of random prefixes and reports the first rule that is
broken.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from catena.errors import StepperError
from catena.search.stepper import Stepper

_NEAR = {torch.float64: 1e-6, torch.float32: 1e-3}
"""Tolerance for sums of probabilities and for log-probabilities of the same prefix; larger in half precision."""


@torch.no_grad()
def check_stepper(stepper: Stepper[Any], n: int = 3, t: int = 4, *, normalized: bool = True, seed: int = 0) -> None:
    """Raise :class:`StepperError` for the first rule that a stepper breaks.

    Args:
        stepper: the stepper to check.
        n: the number of rows to start.
        t: the number of ids to read in each row, sampled from the stepper itself.
        normalized: whether probabilities must sum to one; constrained steppers need False.
        seed: the seed of the samples.
    """
    generator, state = torch.Generator().manual_seed(seed), stepper.start(n)
    open_ = torch.ones(n, dtype=torch.bool)  # after the end, log_probs are only required not to be nan
    for _ in range(t + 1):
        log_probs = _distribution(stepper, state, open_, normalized)
        again = stepper.log_probs(state)
        _same(again, log_probs, "log_probs(state) must return the same each time: call .eval() on the network")
        ids = _drawn(log_probs, stepper.end, generator)
        after = stepper.advance(state, ids)
        _same(stepper.log_probs(state), log_probs, "advance must not change the state that it gets: copy it")
        _check_rows(stepper, after, ids)
        ended = stepper.log_probs(stepper.advance(state, torch.full_like(ids, stepper.end)))
        if bool(ended.isnan().any()):
            raise StepperError(
                "log_probs must not be nan after the end, got nan. Return any values: finished rows stay in the batch."
            )
        state, open_ = after, open_ & (ids != stepper.end).cpu()


def _distribution(
    stepper: Stepper[Any], state: Any, open_: Bool[Tensor, " n"], normalized: bool
) -> Float[Tensor, "n v"]:
    found, n = stepper.log_probs(state), len(open_)
    if not 0 <= stepper.end < stepper.v:
        raise StepperError(f"end must be an id below v = {stepper.v}, got {stepper.end}. Fix the attribute end.")
    if not isinstance(found, Tensor) or not found.is_floating_point() or found.shape != (n, stepper.v):
        shape = f"a tensor of shape {list(found.shape)}" if isinstance(found, Tensor) else f"a {type(found).__name__}"
        raise StepperError(
            f"log_probs of {n} rows must be floats of shape [n, v] = [{n}, {stepper.v}], got {shape}. Return one row "
            "for each prefix."
        )
    if bool(found.isnan().any()):
        raise StepperError("log_probs must be numbers, got nan. Use -inf for impossible ids.")
    total, near = found.double().exp().sum(1).cpu()[open_], _NEAR.get(found.dtype, 0.05)
    if bool((total > 1 + near).any()) or (normalized and bool((total < 1 - near).any())):
        worst = float(total[(total - 1).abs().argmax()])
        raise StepperError(
            f"log_probs must have probabilities that sum to 1, got a sum of {worst:.4g}. Apply log_softmax."
        )
    return found


def _check_rows(stepper: Stepper[Any], state: Any, ids: Int[Tensor, " n"]) -> None:
    """Check that a row does not depend on the other rows or on its index."""
    now, next_ = stepper.log_probs(state), stepper.log_probs(stepper.advance(state, ids))
    rows = torch.arange(len(ids), device=ids.device)

    def check(rearranged: Any, order: Int[Tensor, " m"], law: str) -> None:
        _same(stepper.log_probs(rearranged), now[order], law)
        _same(stepper.log_probs(stepper.advance(rearranged, ids[order])), next_[order], law)

    for row in rows.split(1):
        check(stepper.select(state, row), row, "a row must not depend on the other rows: select all parts of its state")
    order = rows.flip(0).repeat(2)
    turned = stepper.select(state, order)
    check(turned, order, "select must return the given rows in the given order")
    check(
        stepper.join([state, turned]), torch.cat((rows, order)), "join must concatenate the rows of the states in order"
    )


def _drawn(log_probs: Float[Tensor, "n v"], end: int, generator: torch.Generator) -> Int[Tensor, " n"]:
    """Samples an id for each row; the end only if nothing else is possible."""
    p = log_probs.double().exp().cpu()
    p[:, end] = p[:, end].clamp(max=1e-30)
    p[p.sum(1) == 0, end] = 1.0
    return torch.multinomial(p, 1, generator=generator)[:, 0].to(log_probs.device)


def _same(found: Tensor, wanted: Tensor, law: str) -> None:
    near = _NEAR.get(wanted.dtype, 0.05)
    if found.shape != wanted.shape:
        raise StepperError(f"{law} (log_probs have shape {list(found.shape)} instead of {list(wanted.shape)}).")
    apart = torch.where(found == wanted, 0.0, (found - wanted).abs())  # -inf is equal to itself
    if not bool((apart <= near + near * wanted.abs().nan_to_num(posinf=0.0)).all()):
        raise StepperError(f"{law} (log_probs differ by {float(apart.nan_to_num(nan=torch.inf).max()):.3g}).")
