"""The packed LSTM equals the oracle, position by position, for sequences of any lengths and any number of threads."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from catena.kernels.lstm import ops
from catena.kernels.lstm.ops import LSTMWeights, PackedLSTM
from tests.oracle import recurrent as oracle

Layers = list[list[LSTMWeights]]


def random_layers(d_in: int, d: int, n_layers: int, n_directions: int, seed: int, scale: float = 0.5) -> Layers:
    draw = torch.Generator().manual_seed(seed)

    def make(width: int) -> LSTMWeights:
        shapes = ((4 * d, width), (4 * d, d), (4 * d,), (4 * d,))
        return LSTMWeights(*(torch.randn(shape, generator=draw) * scale for shape in shapes))

    return [[make(d_in if i == 0 else d * n_directions) for _ in range(n_directions)] for i in range(n_layers)]


def oracle_states(x: np.ndarray, layers: Layers) -> np.ndarray:
    for layer in layers:
        directions = []
        for i, weights in enumerate(layer):
            blocks = [dict(zip("ifgo", np.split(part.double().numpy(), 4), strict=True)) for part in weights]
            bias = {gate: blocks[2][gate] + blocks[3][gate] for gate in "ifgo"}
            step = -1 if i else 1
            directions.append(oracle.lstm(x[::step], blocks[0], blocks[1], bias)[::step])
        x = np.concatenate(directions, axis=1)
    return x


def check(x: torch.Tensor, lengths: list[int], layers: Layers) -> None:
    found = PackedLSTM(layers)(x, torch.tensor(lengths))
    assert len(found) == len(lengths) > 0
    for row, own, n in zip(found, x, lengths, strict=True):
        assert not row[n:].any()
        if n:
            wanted = torch.from_numpy(oracle_states(own[:n].double().numpy(), layers)).float()
            torch.testing.assert_close(row[:n], wanted, rtol=1e-5, atol=1e-5)


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=12),
    st.integers(1, 40),
    st.integers(1, 40),
    st.integers(1, 3),
    st.integers(1, 2),
    st.integers(0, 2**31),
)
def test_states_equal_the_oracle(
    lengths: list[int], d_in: int, d: int, n_layers: int, n_directions: int, seed: int
) -> None:
    x = torch.randn(len(lengths), max(1, *lengths), d_in, generator=torch.Generator().manual_seed(seed))
    check(x, lengths, random_layers(d_in, d, n_layers, n_directions, seed))


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_and_buffers_split_the_work(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("catena.kernels.common.threads.WORTH_A_THREAD", 1)
    monkeypatch.setattr(ops, "_ROWS_AT_ONCE", 7)
    monkeypatch.setattr(ops, "_SEQUENCES_OF_THREAD", 2)
    lengths = [3, 9, 0, 5, 5, 1, 8]
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        check(torch.randn(7, 9, 5), lengths, random_layers(5, 6, 2, 2, seed=0))
    finally:
        torch.set_num_threads(before)


def test_saturated_gates_stay_finite_and_nan_stays_in_its_sequence() -> None:
    x = torch.randn(3, 4, 2, generator=torch.Generator().manual_seed(0)) * 200
    layers = random_layers(2, 3, 1, 2, seed=0)
    check(x, [4, 4, 2], layers)
    x[1, 2, 0] = torch.nan
    found = PackedLSTM(layers)(x, torch.tensor([4, 4, 2]))
    assert found[1, 2].isnan().all()
    assert found[[0, 2]].isfinite().all()


def test_weights_that_changed_are_noticed() -> None:
    layers = random_layers(2, 3, 1, 1, seed=0)
    packed = PackedLSTM(layers)
    assert packed.is_current(layers)
    layers[0][0].h.mul_(2)
    assert not packed.is_current(layers)


def test_supported_inputs() -> None:
    x, layers = torch.randn(2, 3, 4), random_layers(4, 3, 1, 2, seed=0)
    assert not PackedLSTM.suits(x, layers), "gradients are wanted"
    with torch.no_grad():
        assert PackedLSTM.suits(x, layers)
        assert not PackedLSTM.suits(x.double(), layers)
        assert not PackedLSTM.suits(x[:0], layers)
