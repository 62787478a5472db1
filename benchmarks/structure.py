"""The same exact inference through Catena and through its peers: time, memory, agreement, growth.

    python benchmarks/structure.py [--only chain] [--threads 1 2] [--rounds 9]

All contestants of a case run in turn in one process, so that a busy machine slows them alike. A figure is the median
of the processor time of a run (*least*: the least disturbed one); a ratio is a peer's time to Catena's.
*kept* is what autograd holds for the backward pass; *peak* is how much the process grew while it ran, in a fork. Peers
that are not installed are left out; those of ``requirements-peers.txt`` want a virtual environment of their own, with
this repository's ``src`` on ``PYTHONPATH``.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import math
import os
import resource
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

warnings.filterwarnings("ignore")

Run = Callable[[], Tensor]


@dataclass
class Case:
    """One problem: its contestants, ours first. Each run returns what the contestants must agree on."""

    name: str
    runs: dict[str, Run]
    wanted: dict[str, float] = field(default_factory=dict)
    """How many times faster than a peer we mean to be."""
    agree: float | None = 1e-2
    """By how much answers may differ, at most; None where they are not comparable."""


CASES: dict[str, Callable[[], Case]] = {}
GROWTH: dict[str, tuple[Callable[[int], Run], list[int], str]] = {}


def case(function: Callable[[], Case]) -> Callable[[], Case]:
    """Enter a case in the table under the name of its function."""
    CASES[function.__name__.replace("_", "-")] = function
    return function


def installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def with_gradient(value: Callable[[], Tensor], *inputs: Tensor) -> Run:
    """A run of the forward and the backward pass."""

    def run() -> Tensor:
        for x in inputs:
            x.grad = None
        answer = value()
        answer.sum().backward()
        return answer.detach()

    return run


# --- chains -------------------------------------------------------------------------------------------------


def chain_inputs(b: int, t: int, k: int) -> list[Tensor]:
    torch.manual_seed(0)
    return [torch.randn(s, requires_grad=True) for s in ((b, t, k), (k, k), (k,), (k,))]


def crf_like(transitions: Tensor, start: Tensor, end: Tensor) -> object:
    """A pytorch-crf layer that owns these scores."""
    from torchcrf import CRF

    layer = CRF(len(start), batch_first=True)
    layer.transitions.data, layer.start_transitions.data = transitions.data, start.data
    layer.end_transitions.data = end.data
    return layer


def dense_chain(emissions: Tensor, transitions: Tensor, start: Tensor, end: Tensor) -> Tensor:
    """The scores of every step as torch-struct wants them: ``[b, t - 1, to, from]``."""
    scores = transitions.T + emissions[:, 1:, :, None]
    first = scores[:, :1] + (emissions[:, 0] + start)[:, None, None, :]
    scores = torch.cat((first, scores[:, 1:]), dim=1)
    last = scores[:, -1:] + end[:, None]
    return torch.cat((scores[:, :-1], last), dim=1)


def chain_runs(b: int, t: int, k: int) -> dict[str, Run]:
    from catena.structure.backend import use_backend
    from catena.structure.chain import LinearChain

    inputs = chain_inputs(b, t, k)
    emissions, transitions, start, end = inputs

    def reference() -> Tensor:
        with use_backend("reference"):
            return LinearChain(*inputs).log_partition()

    runs = {
        "catena": with_gradient(lambda: LinearChain(*inputs).log_partition(), *inputs),
        "catena reference": with_gradient(reference, *inputs),
    }
    if installed("torchcrf"):
        layer, mask = crf_like(transitions, start, end), torch.ones(b, t, dtype=torch.bool)
        emissions_t = emissions.transpose(0, 1)
        runs["pytorch-crf"] = with_gradient(
            lambda: layer._compute_normalizer(emissions_t, mask.T), emissions, *layer.parameters()
        )
    if installed("torch_struct"):
        from torch_struct import LinearChainCRF

        runs["torch-struct"] = with_gradient(lambda: LinearChainCRF(dense_chain(*inputs)).partition, *inputs)
    return runs


@case
def chain_sum() -> Case:
    """log Z and its gradient, B32 T64 K32."""
    wanted = {"pytorch-crf": 15, "torch-struct": 800}
    return Case("log Z and gradient of a chain, B32 T64 K32", chain_runs(32, 64, 32), wanted)


@case
def chain_sum_small() -> Case:
    """log Z and its gradient, B1 T64 K16."""
    return Case("log Z and gradient of a chain, B1 T64 K16", chain_runs(1, 64, 16))


@case
def chain_loss() -> Case:
    """The loss that a tagger is trained on, and its gradient, B32 T64 K32."""
    from catena.structure.chain import LinearChain

    inputs = chain_inputs(32, 64, 32)
    emissions, transitions, start, end = inputs
    tags = torch.randint(0, 32, (32, 64))
    runs = {"catena": with_gradient(lambda: -LinearChain(*inputs).log_prob(tags), *inputs)}
    if installed("torchcrf"):
        layer, mask = crf_like(transitions, start, end), torch.ones(32, 64, dtype=torch.bool)
        runs["pytorch-crf"] = with_gradient(
            lambda: -layer(emissions, tags, mask, reduction="none"), emissions, *layer.parameters()
        )
    return Case("negative log-likelihood and gradient of a chain, B32 T64 K32", runs, {"pytorch-crf": 15})


@case
def chain_best() -> Case:
    """The best tags, B32 T64 K32."""
    from catena.structure.chain import LinearChain

    inputs = [x.detach() for x in chain_inputs(32, 64, 32)]
    emissions, transitions, start, end = inputs
    runs: dict[str, Run] = {"catena": lambda: LinearChain(*inputs).argmax()}
    if installed("torchcrf"):
        layer, mask = crf_like(transitions, start, end), torch.ones(32, 64, dtype=torch.bool)
        runs["pytorch-crf"] = lambda: torch.tensor(layer.decode(emissions, mask))
    if installed("torch_struct"):
        from torch_struct import LinearChainCRF

        def best() -> Tensor:
            return LinearChainCRF.struct.from_parts(LinearChainCRF(dense_chain(*inputs)).argmax)[0]

        runs["torch-struct"] = best
    return Case("best tags of a chain, B32 T64 K32", runs, {"pytorch-crf": 10}, agree=0)


def chain_growth(over: str) -> Callable[[int], Run]:
    def at(n: int) -> Run:
        from catena.structure.chain import LinearChain

        inputs = chain_inputs(8, n, 32) if over == "t" else chain_inputs(2, 64, n)
        return with_gradient(lambda: LinearChain(*inputs).log_partition(), *inputs)

    return at


GROWTH["chain, over t (says t¹)"] = (chain_growth("t"), [512, 1024, 2048, 4096, 8192], "t")
GROWTH["chain, over k (says k²)"] = (chain_growth("k"), [128, 256, 512, 1024], "k")


# --- segmentations ----------------------------------------------------------------------------------------------------


def segment_inputs(b: int, t: int, m: int, k: int) -> list[Tensor]:
    torch.manual_seed(0)
    return [torch.randn(s, requires_grad=True) for s in ((b, t, m, k), (k, k))]


@case
def semimarkov_sum() -> Case:
    """log Z and its gradient, B4 T64 M8 K8."""
    from catena.structure.backend import use_backend
    from catena.structure.semimarkov import SemiMarkov

    inputs = segment_inputs(4, 64, 8, 8)

    def reference() -> Tensor:
        with use_backend("reference"):
            return SemiMarkov(*inputs).log_partition()

    runs = {
        "catena": with_gradient(lambda: SemiMarkov(*inputs).log_partition(), *inputs),
        "catena reference": with_gradient(reference, *inputs),
    }
    if installed("torch_struct"):
        from torch_struct import SemiMarkovCRF

        # Not like for like: it scores pairs of labels and a length at each position, and has no transitions apart.
        edges = torch.randn(4, 63, 8, 8, 8, requires_grad=True)
        runs["torch-struct"] = with_gradient(lambda: SemiMarkovCRF(edges).partition, edges)
    return Case("log Z and gradient of a segmentation, B4 T64 M8 K8", runs, agree=None)


def segment_growth(over: str) -> Callable[[int], Run]:
    def at(n: int) -> Run:
        from catena.structure.semimarkov import SemiMarkov

        inputs = segment_inputs(4, n, 16, 16) if over == "t" else segment_inputs(4, 256, n, 16)
        return with_gradient(lambda: SemiMarkov(*inputs).log_partition(), *inputs)

    return at


GROWTH["semimarkov, over t (says t¹)"] = (segment_growth("t"), [64, 128, 256, 512], "t")
GROWTH["semimarkov, over m (says m¹)"] = (segment_growth("m"), [16, 32, 64, 128], "m")


# --- measuring ----------------------------------------------------------------------------------------------


def timed(runs: dict[str, Run], rounds: int) -> dict[str, tuple[float, float]]:
    """(Median, least) milliseconds of processor time of a run of each, taken in turn.

    A turn begins with what the one before left behind: garbage is collected, and a run or two that are not counted
    bring back the caches. The collector rests while runs are timed.
    """
    found: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            gc.collect()
            gc.disable()
            spent = turn(run, 2, 0.02)
            found[name] += turn(run, 25, max(0.05, 3 * min(spent)))
            gc.enable()
    return {name: (statistics.median(times) * 1e3, min(times) * 1e3) for name, times in found.items()}


def turn(run: Run, most: int, seconds: float) -> list[float]:
    """Seconds of processor time of each of at most so many runs, and none begun after so many seconds."""
    times: list[float] = []
    while len(times) < most and sum(times) < seconds:
        begun = time.process_time()
        run()
        times.append(time.process_time() - begun)
    return times


def kept(run: Run) -> int:
    """Bytes that autograd holds for the backward pass, each storage once."""
    storages: dict[int, int] = {}

    def note(x: Tensor) -> Tensor:
        storage = x.untyped_storage()
        storages[storage.data_ptr()] = storage.nbytes()
        return x

    with torch.autograd.graph.saved_tensors_hooks(note, lambda x: x):
        run()
    return sum(storages.values())


def peak(run: Run) -> float:
    """Mebibytes by which a fork of this process grows while it runs."""
    read, write = os.pipe()
    if os.fork() == 0:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        run()
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        os.write(write, str(grown).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        answer = pipe.read()
    os.wait()
    return int(answer or 0) / 1024


def disagreement(a: Tensor, b: Tensor) -> float:
    return (a.double() - b.double()).abs().max().item()


def report(case: Case, rounds: int, threads: int) -> None:
    """One table: a line for each contestant."""
    print(f"\n{case.name}, {threads} thread{'s' * (threads > 1)}")
    print(
        f"  {'':20}{'ms':>10}{'least':>10}{'ratio':>9}{'of least':>10}{'wanted':>8}{'kept MiB':>10}{'peak MiB':>10}"
        f"{'differs':>10}"
    )
    ours, *_ = case.runs
    answer = case.runs[ours]()
    memory = {name: (kept(run) / 2**20, peak(run)) for name, run in case.runs.items()}
    times = timed(case.runs, rounds)
    for name, run in case.runs.items():
        ratios = [a / b for a, b in zip(times[name], times[ours], strict=True)]
        differs = "" if case.agree is None else f"{disagreement(answer, run()):.1g}"
        wanted = f"{case.wanted[name]:g}x" if name in case.wanted else ""
        note = "  MISSED" if name in case.wanted and max(ratios) < case.wanted[name] else ""
        print(
            f"  {name:20}{times[name][0]:10.3f}{times[name][1]:10.3f}{ratios[0]:8.1f}x{ratios[1]:9.1f}x{wanted:>8}"
            f"{memory[name][0]:10.3f}{memory[name][1]:10.1f}{differs:>10}{note}"
        )


def growth(name: str, make: Callable[[int], Run], sizes: list[int], axis: str, rounds: int) -> None:
    """The exponent of the cost, fitted by least squares to the logs of the least times."""
    times = timed({str(n): make(n) for n in sizes}, rounds)
    x, y = [math.log(n) for n in sizes], [math.log(times[str(n)][1]) for n in sizes]
    mean_x, mean_y = statistics.mean(x), statistics.mean(y)
    slope = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True)) / sum((a - mean_x) ** 2 for a in x)
    points = ", ".join(f"{axis}={n}: {times[str(n)][1]:.2f} ms" for n in sizes)
    print(f"  {name}: exponent {slope:.2f}  ({points})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="run the cases whose name holds this")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    print(f"torch {torch.__version__}, python {sys.version.split()[0]}, {os.cpu_count()} processors")
    for threads in options.threads:
        torch.set_num_threads(threads)
        for name, make in CASES.items():
            if options.only in name:
                report(make(), options.rounds, threads)
    torch.set_num_threads(1)
    print("\ngrowth of log Z and gradient, one thread")
    for name, (make, sizes, axis) in GROWTH.items():
        if options.only.split("-")[0] in name:
            growth(name, make, sizes, axis, max(3, options.rounds // 2))


if __name__ == "__main__":
    main()
