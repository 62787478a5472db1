"""What the tests of both kinds of dependency kernels share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from catena.kernels.common.sums import RowSums

LogPartition = Callable[[Tensor, Tensor, bool], Tensor]


def drawn(b: int, t: int, scale: float = 1.0, seed: int = 1) -> Tensor:
    """Scores of arcs for ``b`` sentences of ``t`` words."""
    return torch.randn(b, t + 1, t + 1, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) * scale


class Summed(NamedTuple):
    log_z: Tensor
    chances: Tensor
    exact: Tensor


def in_floats(loop: Callable[..., None], arcs: Tensor, lengths: Tensor, single_root: bool) -> Summed:
    """What one loop by itself computes of all rows, and where it says that it is exact."""
    b = len(arcs)
    log_z, chances, exact = torch.zeros(b).double(), torch.zeros_like(arcs), torch.zeros(b, dtype=torch.bool)
    results = (log_z.numpy(), chances.numpy(), exact.numpy())
    loop(arcs.contiguous().numpy(), lengths.numpy(), single_root, 0, b, True, *results)
    return Summed(log_z, chances, exact)


def float32_needs_no_rescue(loop: Callable[..., None], rescue: Callable[..., None], single_root: bool) -> None:
    """Probabilities that float32 cannot hold are 0 there, and all else is exact without more range."""
    arcs, lengths = drawn(2, 8, 3.0).float(), torch.tensor([8, 6])
    arcs[:, 2, 3] -= 800
    arcs[:, 1, 5] -= 300
    first, second = (in_floats(one, arcs, lengths, single_root) for one in (loop, rescue))
    assert first.exact.all()
    assert not in_floats(loop, arcs.double(), lengths, single_root).exact.any()
    assert torch.allclose(first.log_z, second.log_z, rtol=1e-14)
    assert torch.allclose(first.chances, second.chances, rtol=1e-6, atol=0)
    assert (first.chances[:, 2, 3] == 0).all()


def second_derivatives_agree(log_partition: LogPartition, plain_log_partition: LogPartition) -> None:
    """The Hessian by a vmap of gradients equals the Hessian of the reference implementation."""
    arcs = drawn(3, 3)

    def gradient(x: Tensor) -> Tensor:
        return torch.func.grad(lambda s: log_partition(s[None], torch.tensor([3]), True)[0])(x)

    def plain(x: Tensor) -> Tensor:
        return plain_log_partition(x[None], torch.tensor([3]), True)[0]

    found = torch.vmap(torch.func.jacrev(gradient))(arcs)
    expected = torch.stack([torch.autograd.functional.hessian(plain, x) for x in arcs])
    assert torch.allclose(found, expected)


def compiled_code_may_ask(log_partition: LogPartition) -> None:
    """torch.compile finds one graph, with the same value and gradient."""
    arcs = drawn(2, 4).requires_grad_()

    def ask(x: Tensor) -> Tensor:
        return log_partition(x * 2, torch.tensor([4, 3]), True).sum()

    found = torch.compile(ask, backend="aot_eager", fullgraph=True)(arcs)
    assert torch.allclose(found, ask(arcs))
    assert torch.allclose(*(torch.autograd.grad(x, arcs)[0] for x in (found, ask(arcs))))


def hold_to_the_rules_of_torch(sums: RowSums, best: Any, top: Any) -> None:
    """Schemas, shapes for tracing and gradients of all operators of a kind of trees."""
    arcs, lengths, scale = drawn(3, 4), torch.tensor([4, 0, 2]), torch.ones(3).double()
    marginals = sums.keep_op(arcs, lengths, True)[1]
    shapes = ("test_schema", "test_faketensor")
    torch.library.opcheck(best.overload, (arcs, lengths, True), test_utils=shapes)
    torch.library.opcheck(top.overload, (arcs[..., None].contiguous(), lengths, False, 3), test_utils=shapes)
    torch.library.opcheck(sums.gradients_op.overload, (scale, arcs, lengths, True, marginals), test_utils=shapes)
    arcs.requires_grad_()
    torch.library.opcheck(sums.keep_op.overload, (arcs, lengths, True), test_utils=shapes)
    rules = (*shapes, "test_autograd_registration")
    torch.library.opcheck(sums.log_z_op.overload, (arcs, lengths, True), test_utils=rules)
    stacked = torch.vmap(lambda x: best(x, lengths, True))(torch.stack((drawn(3, 4), drawn(3, 4, seed=2))))
    assert torch.equal(stacked[1], best(drawn(3, 4, seed=2), lengths, True))
