"""The kernels of WaveNet steps compared with the reference implementation, and that with the convolutions."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch

from catena.kernels.wavenet import reference
from catena.kernels.wavenet.ops import CPUKernel, GPUKernel, StepKernel, build_kernel
from catena.kernels.wavenet.reference import Biases, Step, StepWeights

GAPS = (1, 2, 4, 8, 1, 2)


def weights(
    d: int = 16, d_skip: int = 32, v: int = 64, window: int = 2, dtype: torch.dtype = torch.float32
) -> StepWeights:
    """Random weights with outputs of about unit size."""
    generator = torch.Generator().manual_seed(4)

    def matrix(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64) / shape[-2] ** 0.5

    def bias(*shape: int) -> torch.Tensor:
        return 0.2 * torch.randn(shape, generator=generator, dtype=torch.float64)

    n = len(GAPS)
    made = StepWeights(
        matrix(v, d) * 5, matrix(n, window * d, 2 * d), bias(n, 2 * d), matrix(n, d, d) / 2, bias(n, d),
        matrix(n * d, d_skip) * 3, bias(d_skip), matrix(d_skip, d_skip), bias(d_skip), matrix(d_skip, v) * 3, bias(v),
        GAPS,
    )  # fmt: skip
    return StepWeights._make(x.to(dtype) if isinstance(x, torch.Tensor) else x for x in made)


def state(weights: StepWeights, n: int) -> Step:
    """Rows at different times, with queues that are not empty."""
    generator = torch.Generator().manual_seed(6)
    d, d_skip = weights.embedding.shape[1], weights.skip.shape[1]
    queues = torch.randn(n, sum(weights.sizes), d, generator=generator, dtype=torch.float64)
    hidden = torch.rand(n, d_skip, generator=generator, dtype=torch.float64)
    return Step(queues.to(weights.taps), torch.arange(n) * 5, hidden.to(weights.taps))


def biases(weights: StepWeights, n: int, k: int) -> Biases:
    generator = torch.Generator().manual_seed(7)
    return torch.randn(n, k, *weights.taps_bias.shape, generator=generator, dtype=torch.float64).to(weights.taps)


def uniforms(n: int, k: int) -> torch.Tensor:
    return torch.rand(n, k, generator=torch.Generator().manual_seed(8), dtype=torch.float64)


def clone(step: Step, like: torch.Tensor) -> Step:
    return Step(step.queues.clone().to(like), step.time.clone().to(like.device), step.hidden.clone().to(like))


def assert_same(found: Step, expected: Step, atol: float) -> None:
    assert found.time.tolist() == expected.time.tolist()
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one.double().cpu(), other.double(), rtol=0, atol=atol)


CONDITIONS = ["none", "rows", "steps", "all"]


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize(("d", "window"), [(16, 2), (5, 3), (33, 2)])
def test_cpu_kernel_equals_reference(condition: str, d: int, window: int) -> None:
    exact = weights(d, 10, 9, window, torch.float64)
    given = StepWeights._make(x.float() if isinstance(x, torch.Tensor) else x for x in exact)
    kernel = build_kernel(given)
    assert isinstance(kernel, CPUKernel)
    check(kernel, exact, condition, torch.empty(0))


def check(
    kernel: StepKernel,
    exact: StepWeights,
    condition: str,
    like: torch.Tensor,
    n: int = 3,
    k: int = 40,
    temperatures: Sequence[float] = (1.0, 0.5, 0.0),
) -> None:
    """Generate and read ``k`` levels in ``n`` rows by a kernel, and by the reference in double precision."""
    shapes = {"none": None, "rows": (n, 1), "steps": (1, k), "all": (n, k)}
    added = None if (shape := shapes[condition]) is None else biases(exact, *shape)
    own = None if added is None else added.to(like)
    for temperature in temperatures:
        expected, found = state(exact, n), clone(state(exact, n), like)
        levels = reference.generate_(exact, expected, uniforms(n, k), temperature, added)
        generated = kernel.generate_(found, uniforms(n, k).to(like.device), temperature, own)
        assert generated.cpu().tolist() == levels.tolist()
        assert_same(found, expected, 2e-5)
    found = clone(state(exact, n), like)
    kernel.read_(found, levels.to(like.device), own)
    assert_same(found, expected, 2e-5)


def test_reading_steps_one_by_one_equals_reading_them_together() -> None:
    exact = weights(dtype=torch.float64)
    levels = torch.randint(64, (3, 20), generator=torch.Generator().manual_seed(1))
    together, apart = state(exact, 3), state(exact, 3)
    reference.read_(exact, together, levels)
    for k in range(20):
        reference.read_(exact, apart, levels[:, k : k + 1])
    assert_same(apart, together, 1e-12)


def test_queue_holds_the_last_inputs_of_each_layer() -> None:
    exact = weights(dtype=torch.float64)
    given = torch.randint(64, (2, 30), generator=torch.Generator().manual_seed(1))
    step = state(exact, 2)
    reference.read_(exact, step, given)
    for row in range(2):
        first = 5 * row + 30 - 4
        slots = [3 + (first + past) % 4 for past in range(4)]  # after the queues of gaps 1 and 2
        assert len({*slots}) == 4
        newest = step.queues[row, slots[-1]]
        before = state(exact, 2)
        reference.read_(exact, before, given[:, :29])
        assert not torch.equal(before.queues[row, 3 + (first + 3) % 4], newest)
        for past in range(3):
            slot = 3 + (first + past) % 4
            assert torch.equal(before.queues[row, slot], step.queues[row, slot])


def test_double_precision_uses_the_reference() -> None:
    assert type(build_kernel(weights(dtype=torch.float64))) is StepKernel


# --- on a GPU, or in Triton's interpreter -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def triton_device() -> str:
    """The device of Triton kernels: a GPU, or the CPU with the interpreter, which conftest.py sets."""
    pytest.importorskip("triton")
    return "cuda" if torch.cuda.is_available() else "cpu"


@pytest.mark.parametrize("condition", CONDITIONS)
def test_gpu_kernel_equals_reference(condition: str, triton_device: str) -> None:
    exact = weights(dtype=torch.float64)
    like = torch.empty(0, device=triton_device)
    given = StepWeights._make(x.to(like) if isinstance(x, torch.Tensor) else x for x in exact)
    temperatures = {"none": (1.0, 0.5, 0.0)}.get(condition, (1.0,))
    check(GPUKernel(given), exact, condition, like, 2, 9, temperatures)  # the interpreter takes 0.1 s for a step


def test_gpu_kernel_in_half_precision_is_close(triton_device: str) -> None:
    exact = weights(dtype=torch.float64)
    like = torch.empty(0, device=triton_device, dtype=torch.bfloat16)
    given = StepWeights._make(x.to(like) if isinstance(x, torch.Tensor) else x for x in exact)
    rounded = StepWeights._make(x.double().cpu() if isinstance(x, torch.Tensor) else x for x in given)
    found = clone(state(rounded, 2), like)
    expected = clone(found, torch.empty(0, dtype=torch.float64))
    levels = GPUKernel(given).generate_(found, uniforms(2, 5).to(like.device))
    reference.read_(rounded, expected, levels.cpu())
    assert (found.hidden.double().cpu() - expected.hidden).abs().max() < 0.1


def test_weights_are_fetched_ahead_if_they_fit_in_shared_memory(triton_device: str) -> None:
    from catena.kernels.wavenet import gpu

    assert gpu.choose_launch(gpu.pack(weights(64, 64))).num_stages == 2
    assert gpu.choose_launch(gpu.pack(weights(128, 256))).num_stages == 1


@pytest.mark.parametrize("options", [{"d": 24}, {"d_skip": 8}, {"window": 3}, {"v": 100}], ids=str)
def test_other_sizes_are_not_supported_by_the_gpu_kernel(options: dict[str, int], triton_device: str) -> None:
    from catena.errors import ShapeError
    from catena.kernels.wavenet import gpu

    assert gpu.supports(weights())
    assert not gpu.supports(weights(**options))
    with pytest.raises(ShapeError, match="must be powers of two"):
        gpu.pack(weights(**options))
