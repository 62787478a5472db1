"""Pointer networks: a reference by loops, the stepper laws, and outputs that are always valid."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from catena.encoders.config import EncoderConfig, RecurrentConfig, TransformerConfig
from catena.errors import ConfigError, ShapeError
from catena.search.beam_search import beam
from catena.search.greedy_search import greedy
from catena.seq2seq.config import PointerNetworkConfig
from catena.seq2seq.pointer import PointerInputs, PointerNetwork, PointReader, build_pointer
from catena.seq2seq.pointing import RULES, most_steps
from tests.laws.stepper_laws import StepperLaws, some_ids
from tests.seq2seq.test_pointing import possible

SET = TransformerConfig(d=8, n_heads=2, n_layers=1, d_ff=8, positions="none", dropout=0.0)
ENCODERS: dict[str, EncoderConfig] = {"set": SET, "recurrent": RecurrentConfig(d=4)}


def network(rule: str = "order", encoder: str = "set", seed: int = 3, **values: Any) -> PointerNetwork:
    torch.manual_seed(seed)
    made = {"d": 8, "encoder": ENCODERS[encoder], "decoder": RecurrentConfig(d=6, bidirectional=False), **values}
    return build_pointer(PointerNetworkConfig(**made), rule, n_features=2).double().eval()


def points(lengths: list[int], seed: int = 0) -> PointerInputs:
    torch.manual_seed(seed)
    return PointerInputs(torch.rand(len(lengths), max(lengths), 2, dtype=torch.float64), torch.tensor(lengths))


def drawn(model: PointerNetwork, things: PointerInputs, t: int = 40) -> tuple[Tensor, Tensor]:
    """Targets sampled from the model, with their end."""
    stepper = model.stepper(things)
    most = max(most_steps(model.rule, stepper.v - 1, 3), 2)
    ids = some_ids(stepper, stepper.start(len(things)), min(most, t))
    ids[:, -1] = 0
    return ids, (ids == 0).long().argmax(dim=1) + 1


class TestPointerStepper(StepperLaws):
    atol: ClassVar[float] = 1e-9

    @pytest.fixture(params=[("order", "set"), ("ring", "recurrent"), ("triples", "set"), ("any", "set")])
    def make(self, request: pytest.FixtureRequest) -> Callable[[], Any]:
        rule, encoder = request.param
        return lambda: network(rule, encoder).stepper(points([6, 4, 5, 6, 3]))


class TestPointerStepperWithACache(StepperLaws):
    atol: ClassVar[float] = 1e-9

    @pytest.fixture
    def make(self) -> Callable[[], Any]:
        decoder = TransformerConfig(d=8, n_heads=2, n_layers=1, d_ff=8, causal=True, dropout=0.0)
        return lambda: network("some", decoder=decoder, score="scaled").stepper(points([6, 4, 5, 6, 3]))


@torch.no_grad()
@pytest.mark.parametrize("rule", ["order", "ring", "any"])
def test_joined_states_of_two_pointer_steppers_equal_separate_ones(rule: str) -> None:
    model = network(rule)
    long, short = model.stepper(points([6, 4, 5])), model.stepper(points([3, 2], seed=1))
    states = [long.select(long.start(3), torch.tensor([2, 0, 0])), short.start(2)]
    joined = long.join([states[0], short.select(states[1], torch.tensor([1, 0]))])
    states[1] = short.select(states[1], torch.tensor([1, 0]))
    for _ in range(3):
        each = [stepper.log_probs(state) for stepper, state in zip((long, short), states, strict=True)]
        found = long.log_probs(joined)
        assert torch.allclose(found[:3], each[0])
        assert torch.allclose(found[3:, :4], each[1])
        assert (found[3:, 4:] == -torch.inf).all()
        assert torch.equal(long.source_mask(joined).sum(1), torch.tensor([5, 6, 6, 2, 3]))
        ids = [x.argmax(dim=1) for x in each]
        joined = long.advance(joined, torch.cat(ids))
        states = [x.advance(state, i) for x, state, i in zip((long, short), states, ids, strict=True)]


def test_join_raises_if_an_input_is_longer_than_those_of_the_pointer_stepper() -> None:
    model = network()
    long, short = model.stepper(points([6, 4])), model.stepper(points([3]))
    with pytest.raises(ConfigError, match=r"at most 3 positions, got 6\. Call join of the stepper"):
        short.join([short.start(1), long.start(2)])
    assert long.log_probs(long.join([short.start(1), long.start(2)])).shape == (3, 7)


def by_loops(model: PointerNetwork, things: PointerInputs, row: int, target: list[int]) -> Tensor:
    """log p of each id of one target by the formulas of the paper, value by value."""
    n = int(things.lengths[row])
    states = model.encode(PointerInputs(things.values[row : row + 1, :n], things.lengths[row : row + 1]))[0]
    mean = torch.stack([states[j] for j in range(n)]).mean(dim=0)
    inputs = [model.begin.weight @ mean + model.begin.bias] + [states[k - 1] for k in target[:-1]]
    queries = model.decoder.whole(torch.stack(inputs)[None])[0]
    keys = [model.end_key, *states]
    found = []
    for t, k in enumerate(target):
        wanted = possible(model.rule, [j - 1 for j in target[:t]], n)
        may = [0 if j is None else j + 1 for j in wanted]
        query = queries[t]
        for score, looked in zip(model.glimpses, model.looked, strict=True):
            weights = torch.stack([additive(score, query, keys[j]) for j in may]).softmax(dim=0)
            context = sum(w * keys[j] for w, j in zip(weights, may, strict=True))
            query = query + looked.weight @ context + looked.bias
        scores = {j: additive(model.pointer, query, keys[j]) for j in may}
        total = sum(math.e**s for s in scores.values())
        found.append(scores[k] - torch.log(torch.as_tensor(total)))
    return torch.stack(found)


def additive(score: Any, query: Tensor, key: Tensor) -> Tensor:
    return score.weight @ torch.tanh(score.query.weight @ query + score.query.bias + score.keys.weight @ key)


@pytest.mark.parametrize("rule", ["order", "ring", "triples", "some"])
@pytest.mark.parametrize("glimpses", [0, 2])
def test_pointer_log_probs_and_gradients_equal_loops(rule: str, glimpses: int) -> None:
    model, things = network(rule, glimpses=glimpses), points([5, 3])
    assert len(model.glimpses) == glimpses
    targets, lengths = drawn(model, things)
    grads = []
    for fast in (True, False):
        model.zero_grad()
        if fast:
            found = model.token_log_probs(things, targets, lengths)
            assert (found[1, lengths[1] :] == 0).all()
            total = found.sum()
            loss = model.loss(things, targets, lengths)
            assert loss.item() == pytest.approx(-total.item() / lengths.sum().item())
        else:
            rows = [by_loops(model, things, i, targets[i, : lengths[i]].tolist()) for i in range(2)]
            for i, row in enumerate(rows):
                assert torch.allclose(found[i, : lengths[i]], row, atol=1e-10)
            total = torch.cat(rows).sum()
        total.backward()
        grads.append({name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None})
    assert grads[1].keys() <= grads[0].keys()
    for name, grad in grads[1].items():
        assert torch.allclose(grads[0][name], grad, atol=1e-9), name


@pytest.mark.parametrize("encoder", ENCODERS)
def test_pointer_steps_equal_teacher_forcing_for_any_padding(encoder: str) -> None:
    model, things = network("ring", encoder), points([5, 2, 4])
    targets, lengths = drawn(model, things)
    found = model.token_log_probs(things, targets, lengths)
    assert torch.allclose(found, model.stepper(things).token_log_probs(targets, lengths), atol=1e-10)
    wide = torch.full((3, 9, 2), math.nan, dtype=torch.float64)
    wide[:, :5] = things.values
    padded = model.token_log_probs(PointerInputs(wide, things.lengths), targets, lengths)
    assert torch.allclose(found, padded, atol=1e-10)
    real = torch.arange(targets.shape[1]) < lengths[:, None]
    assert not real.all()
    assert torch.equal(found, model.token_log_probs(things, targets.where(real, 1), lengths))
    flipped = PointerInputs(things.values.flip(0), things.lengths.flip(0))
    assert torch.allclose(model.token_log_probs(flipped, targets.flip(0), lengths.flip(0)).flip(0), found, atol=1e-10)


def test_point_reader_normalizes_points() -> None:
    """One deviation for all features if distances matter; a constant feature is not divided by 0."""
    given = [[3.0, 100.0, 7.0], [5.0, 400.0, 7.0], [10.0, 100.0, 7.0], [2.0, 200.0, 7.0]]
    columns = list(zip(*given, strict=True))
    means = [sum(column) / 4 for column in columns]
    spreads = [math.sqrt(sum((x - mean) ** 2 for x in column) / 4) for column, mean in zip(columns, means, strict=True)]
    together = math.sqrt(sum(spread**2 for spread in spreads) / 3)
    for alike, scales in ((False, [*spreads[:2], 1.0]), (True, [together] * 3)):
        reader = PointReader(3, 2).double()
        reader.start_at(torch.tensor(given, dtype=torch.float64), alike)
        (rows,) = reader(torch.tensor([given], dtype=torch.float64))
        assert len(rows) == len(given)
        for point, found in zip(given, rows, strict=True):
            x = torch.tensor([(x - m) / s for x, m, s in zip(point, means, scales, strict=True)], dtype=torch.float64)
            torch.testing.assert_close(found, reader.map.weight @ x + reader.map.bias)


def test_pointer_set_encoder_does_not_depend_on_order() -> None:
    model, things = network("order"), points([6])
    targets, lengths = drawn(model, things)
    turn = torch.tensor([3, 0, 5, 1, 4, 2])
    moved = PointerInputs(things.values[:, turn], things.lengths)
    where = torch.cat((torch.zeros(1, dtype=torch.int64), turn.argsort() + 1))
    assert torch.allclose(
        model.token_log_probs(things, targets, lengths),
        model.token_log_probs(moved, where[targets], lengths),
        atol=1e-10,
    )


def valid(rule: str, positions: tuple[int, ...], n: int) -> bool:
    """Whether an output follows the rule from its first position to its end."""
    steps = [*positions, None]
    return all(step in possible(rule, list(positions[:t]), n) for t, step in enumerate(steps))


@settings(max_examples=15, deadline=None)
@given(
    st.sampled_from(["some", "order", "ring", "triples"]),
    st.lists(st.integers(1, 6), min_size=1, max_size=3),
    st.sampled_from(["free", "equal", "line"]),
    st.integers(0, 5),
)
def test_pointer_outputs_are_always_valid(rule: str, lengths: list[int], where: str, seed: int) -> None:
    model, things = network(rule, seed=seed), points(lengths, seed)
    values = things.values * 1e3 if where == "free" else torch.full_like(things.values, 0.5)
    if where == "line":
        values = things.values[..., :1].expand_as(things.values)
    things = PointerInputs(values, things.lengths)
    stepper = model.stepper(things)
    steps = most_steps(rule, stepper.v - 1)
    for found in (
        greedy(stepper, stepper.start(len(lengths)), steps),
        beam(stepper, stepper.start(len(lengths)), 3, steps, n_best=3),
    ):
        for n, listed in zip(lengths, found, strict=True):
            assert listed
            for hypothesis in listed:
                assert hypothesis.finished
                assert valid(rule, tuple(k - 1 for k in hypothesis.ids), n)


def test_pointer_network_over_tokens_and_invalid_arguments() -> None:
    torch.manual_seed(0)
    model = build_pointer(PointerNetworkConfig(d=8, encoder=SET), "any", n_tokens=7)
    things = PointerInputs(torch.tensor([[3, 4, 0], [2, 2, 5]]), torch.tensor([2, 3]))
    stepper = model.stepper(things)
    assert stepper.log_probs(stepper.start(2))[0, 3] == -math.inf
    weights = stepper.attention(stepper.start(2))
    assert torch.equal(weights > 0, stepper.source_mask(stepper.start(2)))
    with pytest.raises(ShapeError, match="n must be 2, the number of sources"):
        stepper.start(3)
    with pytest.raises(ConfigError, match="exactly one of n_features and n_tokens"):
        build_pointer(PointerNetworkConfig(), "any")


@pytest.mark.parametrize("rule", list(RULES))
def test_pointer_loss_is_zero_without_choices(rule: str) -> None:
    model = network(rule)
    things = points([1])
    targets = {"ring": [[1, 1, 0]], "triples": [[0]]}.get(rule, [[1, 0]])
    lengths = torch.tensor([len(targets[0])])
    loss = model.loss(things, torch.tensor(targets), lengths)
    assert loss.item() == pytest.approx(0.0) or rule in ("any", "some")
