r"""Reference implementation of sums over all paths of an automaton, in any semiring.

.. math::  d(q) = \bigoplus_{\pi\,:\,\to q} \lambda(p_\pi) \otimes w(\pi),
    \qquad  W^* = I \oplus W \oplus W^2 \oplus \dots

Strongly connected components are processed in topological order. Inside a cyclic one, Lehmann's elimination (Lehmann
1977) computes the closure :math:`W^*` from closures of single elements. In the tropical semiring it is the
Floyd-Warshall algorithm, in the real semiring it inverts :math:`I - W`. Nothing is iterated to a tolerance, and a sum
without a value raises :class:`DivergentSumError`.

Only weights on an accepting path without a weight of zero are read: a cycle of other weights may diverge, and one of
them may be nan.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import torch
from jaxtyping import Bool, Shaped
from torch import Tensor

from catena.errors import DivergentSumError
from catena.structure.automaton.segments import with_zero
from catena.structure.automaton.topology import Topology, Unrolled
from catena.structure.automaton.weights import is_invalid, is_nonzero, multiply
from catena.structure.semirings import BooleanSemiring, RealSemiring, Semiring

_BOOLEAN = BooleanSemiring()

# --- closure of a matrix ------------------------------------------------------------------------------------


def closure_of_matrix(semiring: Semiring, matrix: Shaped[Tensor, "..."]) -> Shaped[Tensor, "..."]:
    """one ⊕ W ⊕ W⊗W ⊕ … for the matrices on the last two axes. Lehmann (1977). Time O(n³).

    Raises :class:`DivergentSumError` if the sum has no value. A real matrix must converge absolutely.
    """
    if isinstance(semiring, RealSemiring) and bool((matrix.detach() < 0).any()):
        _eliminated(semiring, matrix.detach().abs())
    return _eliminated(semiring, matrix)


def _eliminated(semiring: Semiring, matrix: Tensor) -> Tensor:
    n = semiring.shape(matrix)[-1]
    slack = _slack(matrix, n)
    mul = semiring.mul if _all_valid(semiring, matrix) else partial(multiply, semiring)
    for k in range(n):
        loops = _star(semiring, matrix[..., k : k + 1, k : k + 1], slack)
        through = mul(mul(matrix[..., :, k : k + 1], loops), matrix[..., k : k + 1, :])
        matrix = semiring.add(matrix, through)
    diagonal = torch.eye(n, dtype=torch.bool, device=matrix.device)
    nothing = torch.where(diagonal, semiring.one((n, n), matrix), semiring.zero((n, n), matrix))
    return semiring.add(matrix, nothing)


def _slack(matrix: Tensor, n: int) -> float:
    """The largest possible rounding error of the weight of a cycle."""
    if not matrix.is_floating_point():
        return 0.0
    if not _can_read(matrix):
        raise RuntimeError(
            "machine must be acyclic for the reference implementation inside torch.vmap or torch.compile, got cycles. "
            "Use float32 or float64 on the CPU, or add a batch axis to the weights instead of calling torch.vmap."
        )
    finite = matrix.detach()[matrix.detach().isfinite()].abs()
    size = max(1.0, float(finite.max())) if finite.numel() else 1.0
    return 8 * n * size * torch.finfo(matrix.dtype).eps


def _star(semiring: Semiring, x: Tensor, slack: float) -> Tensor:
    """The closure of single elements, robust against rounding.

    If cycles of weight one converge, as for maxima, a cycle that exceeds one by rounding counts as one. Otherwise a
    cycle that is below one by no more than rounding counts as divergent.
    """
    if _closes(semiring, semiring.one((), x)):
        return semiring.star(semiring.mul(x, semiring.constant(-slack, x)))
    semiring.star(semiring.mul(x.detach(), semiring.constant(slack, x)))
    return semiring.star(x)


def _closes(semiring: Semiring, x: Tensor) -> bool:
    try:
        semiring.star(x)
    except DivergentSumError:
        return False
    return True


# --- sums over paths ----------------------------------------------------------------------------------------


def unrolled_weights(unrolled: Unrolled, semiring: Semiring, weight: Tensor) -> Tensor:
    """The weights of the arcs of the acyclic graph: ordinary arcs, then the entries of closures."""
    parts = [weight[..., torch.from_numpy(unrolled.plain)]]
    for block in unrolled.blocks:
        c, m = block.states.shape
        cells = block.cells.sum(semiring, weight[..., torch.from_numpy(block.arcs)])
        matrices = cells.reshape(*cells.shape[:-1], c, m, m)
        parts.append(closure_of_matrix(semiring, matrices).flatten(-3))
    return torch.cat(parts, dim=-1)


def _swept(semiring: Semiring, unrolled: Unrolled, weight: Tensor, begins: Tensor, backwards: bool) -> Tensor:
    """Distances of the nodes of the acyclic graph, level by level."""
    steps, position = unrolled.backwards if backwards else unrolled.forwards
    found = begins[..., :0]
    for level in steps:
        here = begins[..., torch.from_numpy(level.nodes)]
        if len(level.arcs):
            tails = found[..., torch.from_numpy(level.tails)]
            arrived = semiring.mul(tails, weight[..., torch.from_numpy(level.arcs)])
            here = semiring.add(here, level.sums.sum(semiring, arrived))
        found = torch.cat((found, here), dim=-1)
    return found[..., torch.from_numpy(position)]


def _all_distances(semiring: Semiring, topology: Topology, weight: Tensor, begins: Tensor, backwards: bool) -> Tensor:
    if torch.compiler.is_compiling():
        topology.prepare()
    unrolled, n = topology.unrolled, topology.n_states
    enter, leave = (unrolled.exits, np.arange(n)) if backwards else (np.arange(n), unrolled.exits)
    places = np.full(unrolled.n_nodes, n)
    places[enter] = np.arange(n)
    begins = with_zero(semiring, begins)[..., torch.from_numpy(places)]
    found = _swept(semiring, unrolled, unrolled_weights(unrolled, semiring, weight), begins, backwards)
    return found[..., torch.from_numpy(leave)]


def plain_distances(
    semiring: Semiring, topology: Topology, weight: Tensor, begins: Tensor, backwards: bool = False
) -> Tensor:
    """Distances of all states, in any semiring, differentiable any number of times."""
    if _all_valid(semiring, weight, begins):
        try:
            return _all_distances(semiring, topology, weight, begins, backwards)
        except DivergentSumError:
            pass  # possibly in states that no path reaches
    tails, heads = (topology.target, topology.source) if backwards else (topology.source, topology.target)
    source, target = torch.from_numpy(tails), torch.from_numpy(heads).to(weight.device)
    reached = _reached(semiring, topology, weight, begins, backwards)
    taken = reached[..., source]
    wrong, begins_wrong = taken & is_invalid(semiring, weight), is_invalid(semiring, begins)
    into = torch.zeros_like(reached, dtype=torch.float).index_add(-1, target, wrong.float()) > 0
    invalid = _all_distances(_BOOLEAN, topology, is_nonzero(semiring, weight), into | begins_wrong, backwards)
    valid, valid_begins = kept(semiring, weight, taken & ~wrong), kept(semiring, begins, ~begins_wrong)
    found = _all_distances(semiring, topology, valid, valid_begins, backwards)
    scores = (weight.sum(-1) + begins.sum(-1))[..., None].expand(found.shape) if found.is_floating_point() else found
    return _or_nan(found, invalid, scores)


def plain_total(semiring: Semiring, topology: Topology, weight: Tensor, initial: Tensor, final: Tensor) -> Tensor:
    """The sum over all paths, in any semiring."""
    tensors = (weight, initial, final)
    if _all_valid(semiring, *tensors):
        try:
            return _sum_of_paths(semiring, topology, *tensors)
        except DivergentSumError:
            pass  # possibly because of cycles on no accepting path
    masks = useful_masks(semiring, topology, *tensors)
    wrong = [mask & is_invalid(semiring, x) for x, mask in zip(tensors, masks, strict=True)]
    valid = [kept(semiring, x, mask & ~bad) for x, mask, bad in zip(tensors, masks, wrong, strict=True)]
    found = _sum_of_paths(semiring, topology, *valid)
    return _or_nan(found, any_wrong(wrong), weight.sum(-1) + initial.sum(-1) + final.sum(-1))


def _sum_of_paths(semiring: Semiring, topology: Topology, weight: Tensor, initial: Tensor, final: Tensor) -> Tensor:
    there = _all_distances(semiring, topology, weight, initial, backwards=False)
    return semiring.sum(with_zero(semiring, semiring.mul(there, final)), dim=-1)


# --- which weights are read ---------------------------------------------------------------------------------


def useful_masks(
    semiring: Semiring, topology: Topology, weight: Tensor, initial: Tensor, final: Tensor
) -> tuple[Bool[Tensor, "*batch arcs"], Bool[Tensor, "*batch states"], Bool[Tensor, "*batch states"]]:
    """Masks of arcs, initial and final weights: False if no accepting path without a weight of zero has the weight.

    Such weights change no sum and no best path. A weight of zero may be True, as its gradient may be nonzero.
    """
    there = _reached(semiring, topology, weight, initial, backwards=False)
    onward = _reached(semiring, topology, weight, final, backwards=True)
    source, target = torch.from_numpy(topology.source), torch.from_numpy(topology.target)
    return there[..., source] & onward[..., target], onward, there


def _reached(semiring: Semiring, topology: Topology, weight: Tensor, begins: Tensor, backwards: bool) -> Tensor:
    arcs, first = is_nonzero(semiring, weight), is_nonzero(semiring, begins)
    return _all_distances(_BOOLEAN, topology, arcs, first, backwards)


def kept(semiring: Semiring, x: Tensor, mask: Tensor) -> Tensor:
    return torch.where(mask, x, semiring.zero(semiring.shape(x), x))


def any_wrong(wrong: Sequence[Tensor]) -> Tensor:
    weight, initial, final = (x.any(-1) for x in wrong)
    return weight | initial | final


def _or_nan(found: Tensor, invalid: Tensor, scores: Tensor) -> Tensor:
    """``found`` with nan, and a nan gradient with respect to all ``scores``, where ``invalid``."""
    if not found.is_floating_point():
        return found
    factor = torch.where(invalid, torch.nan, 0.0).to(found.dtype)
    return torch.where(invalid, 0.0, found) + torch.where(invalid, scores, 0.0) * factor


def _all_valid(semiring: Semiring, *tensors: Tensor) -> bool:
    """Whether no weight is nan or infinite; False where values cannot be read."""
    return _can_read(*tensors) and not any(bool(is_invalid(semiring, x).any()) for x in tensors)


def _can_read(*tensors: Tensor) -> bool:
    """Whether values can be read: not in torch.compile and torch.vmap, but in torch.func.grad."""
    if torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack() > 0:
        return False
    return not any(map(is_mapped, tensors))


def is_mapped(x: Tensor) -> bool:
    """Whether a tensor is inside torch.vmap, at any level of torch.func."""
    while torch._C._functorch.is_functorch_wrapped_tensor(x):
        if torch._C._functorch.is_batchedtensor(x):
            return True
        x = torch._C._functorch.get_unwrapped(x)
    return False
