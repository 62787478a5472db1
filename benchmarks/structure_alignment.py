"""Alignments and CTC with Catena and other libraries; ``structure.py`` describes the measurements.

    python benchmarks/structure.py alignment [--only ctc] [--threads 1 2] [--rounds 9]

A *torch loop* is the usual torch code: one row or frame after the other, vectorized; for the best alignment its
gradient is the path. *pynini* composes two strings with an edit transducer once; only the log-sum over the lattice,
without a gradient, is timed.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

import structure
from structure import Case, Run, case, in_reference, installed, with_gradient

# --- alignments -----------------------------------------------------------------------------------------------


def alignment_inputs(b: int, s: int, t: int) -> list[Tensor]:
    torch.manual_seed(0)
    return [torch.randn(shape, requires_grad=True) for shape in ((b, s, t), (b, s + 1, t), (b, s, t + 1))]


def alignment_loop(substitutions: Tensor, insertions: Tensor, deletions: Tensor, best: bool = False) -> Tensor:
    """Return log Z, or the best score, by rows; within a row by a cumulative sum or maximum over columns."""
    add = torch.maximum if best else torch.logaddexp
    before = torch.nn.functional.pad(insertions[:, 0].cumsum(1), (1, 0))
    for i in range(substitutions.shape[1]):
        inner = add(before[:, :-1] + substitutions[:, i], before[:, 1:] + deletions[:, i, 1:])
        come = torch.cat((before[:, :1] + deletions[:, i, :1], inner), dim=1)
        along = torch.nn.functional.pad(insertions[:, i + 1].cumsum(1), (1, 0))
        less = come - along
        before = (less.cummax(1).values if best else less.logcumsumexp(1)) + along
    return before[:, -1]


def alignment_runs(b: int, s: int, t: int) -> dict[str, Run]:
    from catena.structure.alignment import Alignment

    inputs = alignment_inputs(b, s, t)
    return {
        "catena": with_gradient(lambda: Alignment(*inputs).log_partition(), *inputs),
        "catena reference": with_gradient(in_reference(lambda: Alignment(*inputs).log_partition()), *inputs),
        "torch loop": with_gradient(lambda: alignment_loop(*inputs), *inputs),
    }


@case
def alignment_sum() -> Case:
    """log Z and its gradient, B32 S64 T64."""
    return Case("log Z and gradient of alignments, B32 S64 T64", alignment_runs(32, 64, 64))


@case
def alignment_sum_small() -> Case:
    """log Z and its gradient, B1 S20 T20."""
    return Case("log Z and gradient of alignments, B1 S20 T20", alignment_runs(1, 20, 20))


@case
def alignment_sum_shared_gaps() -> Case:
    """log Z and its gradient with one gap score per position."""
    from catena.structure.alignment import Alignment

    substitutions, insertions, deletions = (x.detach() for x in alignment_inputs(32, 64, 64))
    inputs = [x.clone().requires_grad_() for x in (substitutions, insertions[:, :1], deletions[:, :, :1])]

    def loop() -> Tensor:
        return alignment_loop(inputs[0], inputs[1].expand(-1, 65, -1), inputs[2].expand(-1, -1, 65))

    runs = {
        "catena": with_gradient(lambda: Alignment(*inputs).log_partition(), *inputs),
        "torch loop": with_gradient(loop, *inputs),
    }
    return Case("log Z and gradient of alignments with shared gaps, B32 S64 T64", runs)


@case
def alignment_best() -> Case:
    """The best score, B32 S64 T64."""
    from catena.structure.alignment import Alignment

    inputs = alignment_inputs(32, 64, 64)
    runs = {
        "catena": lambda: Alignment(*(x.detach() for x in inputs)).max(),
        "torch loop": with_gradient(lambda: alignment_loop(*inputs, best=True), *inputs),
    }
    return Case("best alignment and its score, B32 S64 T64", runs)


@case
def edit_lattice() -> Case:
    """The log-sum over the edit lattice of two strings of 30 characters, no gradient."""
    from catena.structure.alignment import Alignment

    x, y = "the quick brown fox jumps over", "a quick brown dog jumped over "
    differs = torch.tensor([[float(a != b) for b in y] for a in x], dtype=torch.float64)
    one = torch.full((1, 1), -1.0, dtype=torch.float64)
    runs: dict[str, Run] = {"catena": lambda: Alignment(-differs[None], one, one).log_partition()}
    if installed("pynini"):
        import pynini

        letters = sorted(set(x + y))
        machine = pynini.Fst(arc_type="log64")
        state = machine.add_state()
        machine.set_start(state)
        machine.set_final(state)
        for a in (0, *map(ord, letters)):
            for b in (0, *map(ord, letters)):
                if a or b:
                    weight = pynini.Weight("log64", float(a != b))
                    machine.add_arc(state, pynini.Arc(a, b, weight, state))
        ends = (pynini.accep(side, arc_type="log64") for side in (x, y))
        lattice = pynini.compose(pynini.compose(next(ends), machine), next(ends))

        def total() -> Tensor:
            weight = pynini.shortestdistance(lattice, reverse=True)[lattice.start()]
            return torch.tensor([-float(weight)], dtype=torch.float64)

        runs["pynini"] = total
    return Case("log-sum over an edit lattice, 30 x 30 characters", runs, {"pynini": 1}, agree=1e-2)


# --- one to one -----------------------------------------------------------------------------------------------


@case
def one_to_one_sum() -> Case:
    """log Z and its gradient, B32 S64 T64."""
    from catena.structure.alignment_one_to_one import OneToOneAlignment

    torch.manual_seed(0)
    inputs = [torch.randn(shape, requires_grad=True) for shape in ((32, 64, 64), (32, 64), (32, 64))]
    runs = {
        "catena": with_gradient(lambda: OneToOneAlignment(*inputs).log_partition(), *inputs),
        "catena reference": with_gradient(in_reference(lambda: OneToOneAlignment(*inputs).log_partition()), *inputs),
    }
    return Case("log Z and gradient of one-to-one alignments, B32 S64 T64", runs)


@case
def one_to_one_best() -> Case:
    """The best partners and their score, B32 S64 T64, compared with the best alignment of the same size."""
    from catena.structure.alignment import Alignment
    from catena.structure.alignment_one_to_one import OneToOneAlignment

    torch.manual_seed(0)
    inputs = [torch.randn(shape) for shape in ((32, 64, 64), (32, 64), (32, 64))]
    scores, source, target = inputs
    runs: dict[str, Run] = {
        "catena": lambda: OneToOneAlignment(*inputs).max(),
        "catena, Alignment": lambda: Alignment(scores, target[:, None], source[:, :, None]).max(),
    }
    return Case("best one-to-one alignment, B32 S64 T64", runs)


# --- CTC ------------------------------------------------------------------------------------------------------


def ctc_inputs(b: int, t: int, v: int, s: int) -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    return torch.randn(b, t, v).log_softmax(-1).requires_grad_(), torch.randint(1, v, (b, s))


def ctc_loop(emissions: Tensor, targets: Tensor, best: bool = False) -> Tensor:
    """Return log Z, or the best score, of rows of equal length, frame by frame."""
    add = (lambda x: x.amax(0)) if best else (lambda x: x.logsumexp(0))
    states = torch.stack((torch.zeros_like(targets), targets), dim=2).flatten(1)
    states = torch.nn.functional.pad(states, (0, 1))
    skips = (states[:, 2:] != states[:, :-2]) & (states[:, 2:] != 0)
    low = -1e30  # finite, since torch's logsumexp has nan gradients at -inf
    alpha = emissions.new_full(states.shape, low)
    alpha = torch.cat((emissions[:, 0].gather(1, states[:, :2]), alpha[:, 2:]), dim=1)
    for i in range(1, emissions.shape[1]):
        step = torch.nn.functional.pad(alpha[:, :-1], (1, 0), value=low)
        skip = torch.nn.functional.pad(alpha[:, :-2].masked_fill(~skips, low), (2, 0), value=low)
        alpha = add(torch.stack((alpha, step, skip))) + emissions[:, i].gather(1, states)
    return add(alpha[:, -2:].T)


def ctc_runs(b: int, t: int, v: int, s: int) -> dict[str, Run]:
    from catena.structure.ctc import CTC

    emissions, targets = ctc_inputs(b, t, v, s)
    frames, labels = torch.full((b,), t), torch.full((b,), s)

    def theirs() -> Tensor:
        loss = torch.nn.functional.ctc_loss(emissions.transpose(0, 1), targets, frames, labels, reduction="none")
        return -loss

    return {
        "catena": with_gradient(lambda: CTC(emissions, targets).log_partition(), emissions),
        "catena reference": with_gradient(in_reference(lambda: CTC(emissions, targets).log_partition()), emissions),
        "torch ctc_loss": with_gradient(theirs, emissions),
        "torch loop": with_gradient(lambda: ctc_loop(emissions, targets), emissions),
    }


@case
def ctc_sum() -> Case:
    """log Z and its gradient, B32 T128 V32 S32."""
    return Case("log Z and gradient of CTC, B32 T128 V32 S32", ctc_runs(32, 128, 32, 32))


@case
def ctc_sum_speech() -> Case:
    """log Z and its gradient with a vocabulary of subwords, B8 T400 V1000 S60."""
    return Case("log Z and gradient of CTC, B8 T400 V1000 S60", ctc_runs(8, 400, 1000, 60))


@case
def ctc_best() -> Case:
    """The best labeling (forced alignment), B32 T128 V32 S32."""
    from catena.structure.ctc import CTC

    emissions, targets = ctc_inputs(32, 128, 32, 32)
    runs = {
        "catena": lambda: CTC(emissions.detach(), targets).max(),
        "torch loop": with_gradient(lambda: ctc_loop(emissions, targets, best=True), emissions),
    }
    return Case("best labeling of CTC and its score, B32 T128 V32 S32", runs)


# --- growth ---------------------------------------------------------------------------------------------------


def alignment_growth(n: int) -> Run:
    from catena.structure.alignment import Alignment

    inputs = alignment_inputs(2, n, n)
    return with_gradient(lambda: Alignment(*inputs).log_partition(), *inputs)


def ctc_growth(over: str) -> Callable[[int], Run]:
    def at(n: int) -> Run:
        from catena.structure.ctc import CTC

        emissions, targets = ctc_inputs(4, n, 32, 32) if over == "t" else ctc_inputs(4, 1200, 32, n)
        return with_gradient(lambda: CTC(emissions, targets).log_partition(), emissions)

    return at


structure.GROWTH["alignment, over s = t (says s t: 2)"] = (alignment_growth, [128, 256, 512, 1024], "n", lambda n: n**2)
structure.GROWTH["ctc, over t (says t: 1)"] = (ctc_growth("t"), [256, 512, 1024, 2048], "t", lambda t: t)
structure.GROWTH["ctc, over s (says s: 1)"] = (ctc_growth("s"), [64, 128, 256, 512], "s", lambda s: s + 32)


if __name__ == "__main__":
    structure.main()
