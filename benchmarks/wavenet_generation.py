"""Generation with a WaveNet: samples a second by queues in one call, by steps, and by recomputation.

    python benchmarks/wavenet_generation.py [--rounds 5] [--d 64] [--d-skip 64]      # on a CPU, one thread
    python benchmarks/wavenet_generation.py --device cuda                           # test and measure the GPU kernel

The network has 20 layers, two blocks of dilations 1 … 512, and a receptive field of 2,047 samples. Rounds alternate
between the contestants; times on a CPU are process times. Before anything is measured, the ids and states of the
fast ways are compared with the reference implementation in double precision on three receptive fields.

On a GPU the persistent kernel is measured for each number of warps and stages, in float32 and bfloat16, and compared
with one step of the reference captured in a CUDA graph, and with single launches.
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from catena.kernels.wavenet import reference
from catena.kernels.wavenet.ops import build_kernel
from catena.kernels.wavenet.reference import Step, StepWeights
from catena.lm.wavenet import WaveNet
from catena.lm.wavenet_build import build_wavenet
from catena.lm.wavenet_config import WaveNetConfig
from catena.lm.wavenet_state import copy_step, pack_steps
from catena.randomness import counted_uniforms

DOUBLE = torch.empty(0, dtype=torch.float64)


def make(d: int, d_skip: int) -> WaveNet:
    """A network whose distributions are as uneven as those of a trained one."""
    torch.manual_seed(0)
    model = build_wavenet(WaveNetConfig(d=d, d_skip=d_skip)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
        model.output.scores.weight.mul_(4.0)
    return model


def converted(weights: StepWeights, like: torch.Tensor) -> StepWeights:
    return StepWeights._make(x.to(like) if isinstance(x, torch.Tensor) else x for x in weights)


def moved(step: Step, like: torch.Tensor) -> Step:
    return Step(step.queues.to(like, copy=True), step.time.to(like.device, copy=True), step.hidden.to(like, copy=True))


def uniforms(n: int, k: int, device: str = "cpu") -> torch.Tensor:
    return torch.from_numpy(np.stack([counted_uniforms(3, row, 0, k) for row in range(n)])).to(device)


def compare(model: WaveNet, like: torch.Tensor, launches: list[Any], k: int) -> None:
    """Print how far a kernel is from the reference in double precision: ids, and the vectors after the same ids."""
    weights = converted(pack_steps(model.embedding, model.encoder, model.output), like)
    exact = converted(weights, DOUBLE)
    kernel, step = build_kernel(weights), moved(model.start(2).step, like)
    expected = moved(step, DOUBLE)
    levels = reference.generate_(exact, expected, uniforms(2, k))
    for launch in launches:
        found, after = moved(step, like), expected
        generated = run_kernel(kernel, found, uniforms(2, k, str(like.device)), launch).cpu()
        different = (generated != levels).any(dim=0).nonzero()
        if len(different):
            after = moved(step, DOUBLE)
            reference.read_(exact, after, generated)
        error = (found.hidden.double().cpu() - after.hidden).abs().max() / after.hidden.abs().max()
        where = f"first different id at {int(different[0])}" if len(different) else "all ids equal"
        print(f"{like.dtype} {launch or ''}: {k} steps of 2 rows, {where}; relative error at the end {error:.1e}")


def gpu_module() -> Any:
    """The Triton kernels, which exist only where Triton is installed."""
    return importlib.import_module("catena.kernels.wavenet.gpu")


def run_kernel(kernel: Any, step: Step, numbers: torch.Tensor, launch: Any = None) -> torch.Tensor:
    if launch is None:
        return kernel.generate_(step, numbers)
    return gpu_module().generate_(kernel.packed, step, numbers, 1.0, None, launch)


def timed(run: Callable[[], object], device: str) -> float:
    """Process time on a CPU, wall time until the device is idle on a GPU."""
    if device == "cuda":
        torch.cuda.synchronize()
        began = time.perf_counter()
        run()
        torch.cuda.synchronize()
        return time.perf_counter() - began
    began = time.process_time()
    run()
    return time.process_time() - began


def measure(contestants: dict[str, tuple[int, Callable[[], object]]], rounds: int, device: str) -> dict[str, float]:
    """Samples a second of each, the median of alternating rounds."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for _, run in contestants.values():
        timed(run, device)
    for _ in range(rounds):
        for name, (_, run) in contestants.items():
            times[name].append(timed(run, device))
    return {name: n / statistics.median(times[name]) for name, (n, _) in contestants.items()}


def show(speeds: dict[str, float], base: str) -> None:
    for name, speed in speeds.items():
        print(f"  {name:52} {speed:12,.1f} samples/s  {speed / speeds[base]:9.1f} times {base!r}")


@torch.inference_mode()
def on_cpu(model: WaveNet, rounds: int) -> None:
    compare(model, torch.empty(0), [None], 3 * model.field)
    first = torch.randint(256, (1, model.field), generator=torch.Generator().manual_seed(1))
    start = {n: model.start(n) for n in (1, 16)}
    tails = model.encoder.begin(1, torch.device("cpu"), torch.float32)
    vector = model.embedding(first[:, :1])

    def by_steps(n: int) -> None:
        state = start[1]
        for _ in range(n):
            level = int(model.log_probs(state)[0].exp().multinomial(1))
            state = model.advance(state, torch.tensor([level]))

    def by_tails(n: int) -> None:
        state = tails
        for _ in range(n):
            state = model.encoder.continue_(vector, state)[1]

    contestants = {
        "one stream": (8000, lambda: model.generate(start[1], 8000)),
        "16 streams": (32000, lambda: model.generate(start[16], 2000)),
        "steps of the stepper": (400, lambda: by_steps(400)),
        "steps by concatenated tails": (60, lambda: by_tails(60)),
        "recomputation of what one output depends on": (3, lambda: [model.hidden(first) for _ in range(3)]),
        "recomputation of the field": (3, lambda: [model.encoder.whole(model.embedding(first)) for _ in range(3)]),
    }
    show(measure(contestants, rounds, "cpu"), "recomputation of the field")


@torch.inference_mode()
def on_gpu(
    model: WaveNet, rounds: int, warps: Sequence[int] = (4, 8, 16), stages: Sequence[int] = (1, 2), n_steps: int = 4000
) -> None:
    print(torch.cuda.get_device_name())
    launches = [gpu_module().Launch(n_warps, n_stages) for n_warps in warps for n_stages in stages]
    compare(model, torch.empty(0, device="cuda"), launches, 3 * model.field)
    compare(model, torch.empty(0, device="cuda", dtype=torch.bfloat16), launches[-1:], 500)
    show(measure(plain_steps(model), rounds, "cuda"), "reference, one step in a CUDA graph")
    for dtype in (torch.float32, torch.bfloat16):
        like = torch.empty(0, device="cuda", dtype=dtype)
        weights = converted(pack_steps(model.embedding, model.encoder, model.output), like)
        kernel, step = build_kernel(weights), moved(model.start(1).step, like)

        def contestant(
            launch: Any, n: int, kernel: Any = kernel, step: Step = step
        ) -> tuple[int, Callable[[], object]]:
            own = Step(*(x.expand(n, *x.shape[1:]).contiguous() for x in step))
            numbers = uniforms(n, n_steps, "cuda")
            return n_steps * n, lambda: run_kernel(kernel, copy_step(own), numbers, launch)

        found = measure({str(launch): contestant(launch, 1) for launch in launches}, rounds, "cuda")
        best = launches[int(np.argmax(list(found.values())))]
        found |= measure({f"{n} streams, {best}": contestant(best, n) for n in (16, 128)}, rounds, "cuda")
        print(f"{dtype}, one stream for each way of compiling, and several for the best")
        show(found, str(launches[0]))


def plain_steps(model: WaveNet) -> dict[str, tuple[int, Callable[[], object]]]:
    """One step of the reference captured in a CUDA graph, without sampling; and single launches."""
    like = torch.empty(0, device="cuda")
    weights = converted(pack_steps(model.embedding, model.encoder, model.output), like)
    step = moved(model.start(1).step, like)
    levels = torch.zeros(1, 1, dtype=torch.int64, device="cuda")
    reference.read_(weights, step, levels)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        reference.read_(weights, step, levels)

    def replay(n: int, inputs: torch.Tensor = levels) -> None:  # the graph reads the inputs, which must stay alive
        for _ in range(n):
            graph.replay()

    return {
        "reference, one step in a CUDA graph": (500, lambda: replay(500)),
        "reference, single launches": (20, lambda: reference.generate_(weights, step, uniforms(1, 20, "cuda"))),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--d", type=int, default=64)
    parser.add_argument("--d-skip", type=int, default=64)
    parser.add_argument("--warps", type=int, nargs="+", default=[4, 8, 16], help="with --device cuda")
    parser.add_argument("--stages", type=int, nargs="+", default=[1, 2], help="with --device cuda")
    flags = parser.parse_args()
    torch.set_num_threads(1)
    model = make(flags.d, flags.d_skip)
    if flags.device == "cuda":
        on_gpu(model, flags.rounds, flags.warps, flags.stages)
    else:
        on_cpu(model, flags.rounds)


if __name__ == "__main__":
    main()
