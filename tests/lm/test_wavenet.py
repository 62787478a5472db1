"""WaveNet: double loops, the receptive field, conditions, the laws of steppers, and generation by queues."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable

import numpy as np
import pytest
import torch

from catena.encoders.dilated import Condition, Dilated
from catena.errors import ConfigError, DataError, ShapeError, StepperError
from catena.lm.base import AutoregressiveLM
from catena.lm.wavenet import WaveNet
from catena.lm.wavenet_state import WaveNetState
from catena.outputs.softmax import Softmax
from catena.randomness import counted_uniforms
from catena.search.combine import Ensemble
from catena.search.greedy_search import greedy
from catena.search.sampling import sample
from tests.laws.stepper_laws import StepperLaws
from tests.lm.wavenets import array, oracle_layers, small
from tests.oracle.wavenet import hidden as oracle_hidden
from tests.oracle.wavenet import log_softmax

KINDS = [
    {},
    {"window": 3, "n_layers": 2},
    {"n_speakers": 3},
    {"upsampling": "repeat"},
    {"upsampling": "learned", "n_speakers": 2, "d": 33, "d_skip": 40},
]


def levels(n: int, t: int, model: WaveNet, seed: int = 3) -> torch.Tensor:
    return torch.randint(model.n_levels, (n, t), generator=torch.Generator().manual_seed(seed))


def conditions(model: WaveNet, n: int, t: int) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """Speakers and frames of ``n`` recordings of about ``t`` samples, if the model has them."""
    generator = torch.Generator().manual_seed(8)
    speakers = torch.arange(n) % (model.n_speakers + 1) - 1 if model.n_speakers else None
    frames = None
    if model.upsampling is not None:
        size = (n, -(-t // model.upsampling.hop), model.upsampling.d)
        frames = torch.randn(size, generator=generator).to(model.embedding.weight)
    return speakers, frames


# --- the formula ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", KINDS, ids=str)
def test_log_probs_equal_double_loops_over_filters_with_zeros(options: dict[str, object]) -> None:
    model = small(**options).double()
    t, n = 6, 3
    x = levels(n, t, model)
    speakers, frames = conditions(model, n, t)
    stepper = model.conditioned(speakers, frames) if speakers is not None or frames is not None else model
    found = stepper.token_log_probs(x + model.first, torch.full((n,), t))
    for row in range(n):
        inputs = [model.silence] * model.field + x[row, :-1].tolist()
        constant = series = None
        if speakers is not None:
            constant = model.speakers.weight[speakers[row] if speakers[row] >= 0 else model.n_speakers]
        if frames is not None:
            up = model.begin(None if speakers is None else speakers[row : row + 1], frames[row : row + 1]).series[0]
            series = up[: len(inputs)]
        vectors = oracle_hidden(
            list(array(model.embedding.weight)[inputs]),
            oracle_layers(model, constant, series),
            (array(model.encoder.leave.weight), array(model.encoder.leave.bias)),
        )[model.field - 1 :]
        weight, bias = array(model.output.scores.weight), array(model.output.scores.bias)
        for i in range(t):
            expected = log_softmax(weight @ vectors[i] + bias)
            assert found[row, i].item() == pytest.approx(expected[x[row, i]], abs=1e-10)


@pytest.mark.parametrize("upsampling", ["repeat", "linear", "learned"])
def test_series_of_a_state_is_the_upsampled_series_after_silence(upsampling: str) -> None:
    model = small(upsampling=upsampling).double()
    _, frames = conditions(model, 2, 11)
    series = model.begin(None, frames).series
    past = model.field - 1
    padded = torch.cat((frames.new_zeros(2, 5, 3), frames), dim=1)
    torch.testing.assert_close(series[:, past:], model.upsampling(padded)[:, 20:])
    if upsampling == "repeat":
        assert (series[:, :past] == 0).all()


def test_probabilities_of_all_short_recordings_sum_to_one() -> None:
    model = small(n_levels=4).double()
    ids = torch.tensor(list(itertools.product(range(4), repeat=3)))
    total = model.token_log_probs(ids + model.first, torch.full((64,), 3)).sum(dim=1).exp().sum()
    assert total.item() == pytest.approx(1.0, abs=1e-12)


def test_special_tokens_have_no_probability() -> None:
    model = small()
    assert model.v == model.n_levels + 4
    log_probs = model.log_probs(model.start(2))
    assert (log_probs[:, : model.first] == -torch.inf).all()
    torch.testing.assert_close(log_probs[:, model.first :].exp().sum(dim=1), torch.ones(2))
    ids = torch.tensor([[model.first, model.end, model.first + 1]])
    scores = model.token_log_probs(ids, torch.tensor([3]))[0]
    assert scores[1] == -torch.inf
    assert scores[[0, 2]].isfinite().all()
    assert model.vocabulary.tokens([model.first, model.v - 1]) == ["0", str(model.n_levels - 1)]


@pytest.mark.parametrize("options", [{}, {"window": 3, "n_layers": 2}], ids=str)
def test_gradient_reaches_exactly_the_receptive_field(options: dict[str, object]) -> None:
    encoder = small(**options).double().encoder
    torch.nn.init.constant_(encoder.layers[0].skip.bias, 30.0)  # no ReLU is 0
    torch.nn.init.constant_(encoder.leave.bias, 300.0)
    assert encoder.field == 1 + (encoder.window - 1) * sum(encoder.gaps)
    x = torch.randn(1, 3 * encoder.field, 5, dtype=torch.float64, requires_grad=True)
    for t in (encoder.field - 1, encoder.field + 3, 3 * encoder.field - 1):
        (gradient,) = torch.autograd.grad(encoder.whole(x)[0, t].sum(), x)
        reached = (gradient[0] != 0).any(dim=-1)
        expected = [t - encoder.field < s <= t for s in range(x.shape[1])]
        assert reached.tolist() == expected


def test_nan_in_the_future_changes_nothing() -> None:
    encoder = small().double().encoder
    x = torch.randn(2, 20, 5, dtype=torch.float64)
    y = encoder.whole(x)
    for t in range(20):
        later = x.clone()
        later[:, t + 1 :] = torch.nan
        assert torch.equal(encoder.whole(later)[:, : t + 1], y[:, : t + 1])


def test_outputs_without_padding_equal_those_of_a_whole_sequence() -> None:
    model = small(n_speakers=2, upsampling="repeat").double()
    encoder = model.encoder
    x = torch.randn(2, encoder.field + 4, 5, dtype=torch.float64)
    condition = Condition(torch.randn(2, 4).double(), torch.randn(2, x.shape[1], 3).double())
    biases = encoder.project(condition)
    whole, _ = encoder.continue_(x, encoder.begin(2, x.device, x.dtype), biases)
    torch.testing.assert_close(encoder.without_padding(x, biases), whole[:, encoder.field - 1 :])
    with pytest.raises(ShapeError, match=f"x must have at least {encoder.field} positions"):
        encoder.without_padding(x[:, : encoder.field - 1])


# --- conditions -------------------------------------------------------------------------------------------------------


def test_speakers_with_zero_projection_equal_no_speakers() -> None:
    model = small(n_speakers=3).double()
    for layer in model.encoder.layers:
        torch.nn.init.zeros_(layer.from_global.weight)
    plain = small().double()
    plain.load_state_dict(model.state_dict(), strict=False)
    ids = levels(3, 8, model) + model.first
    found = model.conditioned(torch.tensor([0, 2, -1])).token_log_probs(ids, torch.full((3,), 8))
    torch.testing.assert_close(found, plain.token_log_probs(ids, torch.full((3,), 8)))


def test_speakers_change_the_distribution() -> None:
    model = small(n_speakers=3).double()
    log_probs = model.log_probs(model.begin(torch.tensor([0, 1, 2, -1])))[:, model.first :]
    assert len(log_probs) == 4
    for one, other in itertools.combinations(log_probs, 2):
        assert (one - other).abs().max() > 1e-3


def test_constant_series_by_repetition_equals_global_condition() -> None:
    encoder = Dilated(5, 5, n_layers=3, d_skip=6, final_relu=True, d_global=3, d_local=3).double()
    with torch.no_grad():
        for layer in encoder.layers:
            layer.from_local.weight.copy_(layer.from_global.weight)
    x, h = torch.randn(2, 9, 5).double(), torch.randn(2, 3).double()
    state = encoder.begin(2, x.device, x.dtype)
    constant = encoder.continue_(x, state, encoder.project(Condition(constant=h)))[0]
    series = encoder.continue_(x, state, encoder.project(Condition(series=h[:, None].expand(2, 9, 3))))[0]
    torch.testing.assert_close(series, constant)
    assert not torch.allclose(constant, encoder.continue_(x, state)[0])


def test_series_is_held_after_its_end() -> None:
    model = small(upsampling="repeat").double()
    _, frames = conditions(model, 1, 8)
    longer = torch.cat((frames, frames[:, -1:].expand(1, 5, 3)), dim=1)
    ids, lengths = levels(1, 20, model) + model.first, torch.tensor([20])
    short, long = (model.conditioned(None, x).token_log_probs(ids, lengths) for x in (frames, longer))
    torch.testing.assert_close(short, long)


@pytest.mark.parametrize("upsampling", ["repeat", "linear", "learned"])
@pytest.mark.parametrize("start", [0, 4, 20])
def test_windows_have_the_loss_of_the_whole_recording(upsampling: str, start: int) -> None:
    model = small(n_speakers=2, upsampling=upsampling).double()
    speakers, (_, frames) = torch.tensor([1]), conditions(model, 1, 48)
    x, n = levels(1, 40, model), 13
    whole = model.conditioned(speakers, frames).token_log_probs(x + model.first, torch.tensor([40]))
    hop, before = model.upsampling.hop, model.n_context_frames
    padded = torch.cat((torch.full((1, model.field), model.silence), x), dim=1)
    padded_frames = torch.cat((frames.new_zeros(1, before, 3), frames), dim=1)
    first = start // hop
    window = padded_frames[:, first : first + before + -(-n // hop) + model.upsampling.margin]
    inputs = padded[:, start : start + model.field + n - 1]
    loss = model.loss(inputs, x[:, start : start + n], None, model.condition(speakers, window))
    assert loss.item() == pytest.approx(-whole[0, start : start + n].mean().item(), abs=1e-12)


def test_mask_leaves_targets_out_of_the_loss() -> None:
    model = small().double()
    inputs, targets = levels(2, model.field + 4, model), levels(2, 5, model, seed=5)
    mask = torch.tensor([[True] * 5, [True, True, False, False, False]])
    rows = [model.loss(inputs[i : i + 1], targets[i : i + 1]) for i in range(2)]
    short = model.loss(inputs[1:, :-3], targets[1:, :2])
    expected = (5 * rows[0] + 2 * short) / 7
    torch.testing.assert_close(model.loss(inputs, targets, mask), expected)


# --- the stepper ------------------------------------------------------------------------------------------------------


class TestWaveNet(StepperLaws):
    @pytest.fixture(params=[{}, {"window": 3}, {"n_speakers": 2}, {"orders": (3,)}, {"orders": (1, 4)}], ids=str)
    def make(self, request: pytest.FixtureRequest) -> Callable[[], WaveNet]:
        return lambda: small(**request.param).double()


class TestSinglePrecision(StepperLaws):
    atol = 1e-5

    @pytest.fixture(params=[{}, {"window": 3, "d": 16}, {"orders": (2, 5), "n_speakers": 1}], ids=str)
    def make(self, request: pytest.FixtureRequest) -> Callable[[], WaveNet]:
        return lambda: small(**request.param)


class TestConditionedWaveNet(StepperLaws):
    cpu_only = True

    @pytest.fixture(params=["repeat", "linear", "learned"])
    def make(self, request: pytest.FixtureRequest) -> Callable[[], AutoregressiveLM]:
        def build() -> AutoregressiveLM:
            model = small(upsampling=request.param, n_speakers=2).double()
            return model.conditioned(*conditions(model, 5, 9))

        return build


def test_one_source_serves_any_number_of_rows_and_others_raise() -> None:
    model = small(n_speakers=2)
    one, two = model.conditioned(torch.tensor([1])), model.conditioned(torch.tensor([0, 1]))
    rows = one.log_probs(one.start(3))
    assert torch.equal(rows, rows[:1].expand_as(rows))
    torch.testing.assert_close(two.log_probs(two.start(2))[1], rows[0])
    with pytest.raises(StepperError, match="n must be the number of sources, 2, got 3"):
        two.start(3)


def test_joined_sources_keep_their_series() -> None:
    model = small(upsampling="repeat").double()
    frames = torch.randn(2, 4, 3).double()
    states = [model.begin(None, frames[:1]), model.begin(None, frames[1:, :2])]
    ids = levels(2, 12, model) + model.first
    joined = model.extend(model.join(states), ids, torch.tensor([12, 12]))
    for row in range(2):
        alone = model.extend(states[row], ids[row : row + 1], torch.tensor([12]))
        torch.testing.assert_close(model.log_probs(joined)[row : row + 1], model.log_probs(alone))


def test_ensemble_and_sampling_work_as_for_texts() -> None:
    one, other = small(seed=1), small(seed=2)
    ensemble = Ensemble([one, other], [0.5, 0.5])
    found = sample(ensemble, generators=4, max_length=30, n=2)[0]
    assert [len(hypothesis.ids) for hypothesis in found] == [30, 30]
    assert min(found[0].ids) >= one.first
    ids = torch.tensor([found[0].ids])
    scores = torch.stack([model.token_log_probs(ids, torch.tensor([30]))[0] for model in (one, other)])
    expected = (scores.double().exp().mean(dim=0)).log().sum()
    assert found[0].log_prob == pytest.approx(expected.item(), abs=1e-3)


# --- linear prediction ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"upsampling": "learned", "n_speakers": 2}], ids=str)
@pytest.mark.parametrize("start", [0, 4, 20])
def test_windows_with_predictions_have_the_loss_of_the_whole_recording(options: dict[str, object], start: int) -> None:
    model = small(orders=(2, 5), **options).double()
    speakers, frames = conditions(model, 1, 40)
    x, n = levels(1, 40, model), 12
    stepper = model.conditioned(speakers, frames) if options else model
    whole = stepper.token_log_probs(x + model.first, torch.tensor([40]))
    predicted = torch.from_numpy(model.predictors.predict(x[0].numpy().astype(np.uint8)))[None]
    padded = torch.cat((torch.full((1, model.field), model.silence), x), dim=1)
    before = torch.cat((predicted[:, :1].expand(-1, model.field - 1, -1, -1), predicted), dim=1)
    window = None
    if frames is not None:
        frames = torch.cat((frames.new_zeros(1, model.n_context_frames, 3), frames), dim=1)
        window = frames[:, start // 4 : start // 4 + model.n_context_frames + 3 + model.upsampling.margin]
    size = model.field + n - 1
    condition = model.condition(speakers, window, before[:, start : start + size])
    loss = model.loss(padded[:, start : start + size], x[:, start : start + n], None, condition)
    assert loss.item() == pytest.approx(-whole[0, start : start + n].mean().item(), abs=1e-9)


def test_predictors_remember_more_than_the_receptive_field() -> None:
    model = small(orders=(4,)).double()
    ids = levels(2, 60, model) + model.first
    ids[1, 10:] = ids[0, 10:]
    scores = model.token_log_probs(ids, torch.tensor([60, 60]))
    assert 3 * model.field < 50
    assert (scores[0, 50:] - scores[1, 50:]).abs().max() > 1e-6


def test_later_samples_change_no_earlier_score_of_a_model_with_predictors() -> None:
    model = small(orders=(4,)).double()
    ids = levels(1, 40, model) + model.first
    changed = ids.clone()
    changed[:, 25:] = model.first
    one, other = (model.token_log_probs(x, torch.tensor([40]))[0, :25] for x in (ids, changed))
    assert torch.equal(one, other)


def test_generation_with_predictors_is_what_single_steps_give() -> None:
    model = small(orders=(2, 5))
    state = model.start(2)
    found = model.generate(state, 30, seed=7)
    uniforms = np.stack([counted_uniforms(7, row, 0, 30) for row in range(2)])
    scores = model.token_log_probs(found + model.first, torch.tensor([30, 30]))
    for i in range(30):
        log_probs = model.log_probs(state)[:, model.first :].double()
        for row in range(2):
            assert_chosen(log_probs[row].exp().cumsum(dim=0), uniforms[row, i], int(found[row, i]))
            assert log_probs[row, found[row, i]].item() == pytest.approx(scores[row, i].item(), abs=1e-4)
        state = model.advance(state, found[:, i] + model.first)
    assert torch.equal(model.generate(model.start(2), 30, seed=7), found)


def test_model_with_predictors_needs_predictions() -> None:
    model = small(orders=(2,))
    with pytest.raises(DataError, match="predictions must be given to a model with linear_prediction, got None"):
        model.hidden(levels(1, model.field, model))


# --- generation -------------------------------------------------------------------------------------------------------


def begin(model: WaveNet, n: int, t: int) -> WaveNetState:
    speakers, frames = conditions(model, n, t)
    return model.start(n) if speakers is frames is None else model.begin(speakers, frames)


def recomputed(model: WaveNet, history: torch.Tensor, prompt: int) -> torch.Tensor:
    """log p of all levels after each prefix of at least ``prompt`` levels, by convolutions in double precision."""
    exact = copy.deepcopy(model).double()
    n, t = history.shape
    silence = torch.full((n, model.field), model.silence)
    inputs = torch.cat((silence, history[:, :-1]), dim=1)
    state = begin(exact, n, t)
    series = None if state.series is None else state.series[:, : inputs.shape[1]]
    hidden = exact.hidden(inputs, Condition(state.constant, series))[:, prompt:]
    return exact.output.log_probs(hidden.flatten(0, 1)).view(n, t - prompt, -1)


@pytest.mark.parametrize("options", KINDS, ids=str)
@pytest.mark.parametrize("prompt", [0, 1, 5, 40])
def test_generation_by_queues_equals_recomputation_on_three_fields(options: dict[str, object], prompt: int) -> None:
    model = small(**options)
    n, t = 2, 3 * model.field
    given = levels(n, prompt, model)
    state = model.extend(begin(model, n, prompt + t), given + model.first, torch.full((n,), prompt))
    found = model.generate(state, t, seed=7)
    expected = recomputed(model, torch.cat((given, found), dim=1), prompt)
    uniforms = np.stack([counted_uniforms(7, row, prompt, t) for row in range(n)])
    assert t > 0
    for i in range(t):
        log_probs = model.log_probs(state)[:, model.first :]
        assert (log_probs - expected[:, i]).abs().max() < 1e-5
        edges = expected[:, i].exp().cumsum(dim=1)
        for row in range(n):
            assert_chosen(edges[row], uniforms[row, i], int(found[row, i]))
        state = model.advance(state, found[:, i] + model.first)


def assert_chosen(edges: torch.Tensor, uniform: float, level: int) -> None:
    """The uniform number is between the cumulative probabilities around the level, up to rounding."""
    below = edges[level - 1].item() if level else 0.0
    assert below - 1e-5 <= uniform <= edges[level].item() + 1e-5


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_generation_in_blocks_and_in_parts_is_the_same(dtype: torch.dtype) -> None:
    model = small(n_speakers=2, upsampling="linear").to(dtype)
    state = begin(model, 2, 30)
    whole = model.generate(state, 30, seed=3)
    before = model.log_probs(state)
    blocks = list(model.generate_blocks(state, 30, seed=3, block=7))
    assert [block.shape[1] for block in blocks] == [7, 7, 7, 7, 2]
    assert torch.equal(torch.cat(blocks, dim=1), whole)
    assert torch.equal(model.log_probs(state), before)
    later = model.extend(state, whole[:, :11] + model.first, torch.tensor([11, 11]))
    assert torch.equal(model.generate(later, 19, seed=3), whole[:, 11:])
    assert not torch.equal(model.generate(state, 30, seed=4), whole)
    assert not torch.equal(whole[0], whole[1])
    assert model.generate(state, 0).shape == (2, 0)


def test_single_and_double_precision_generate_the_same() -> None:
    model = small(n_speakers=2)
    state = model.begin(torch.tensor([0, 1, -1]))
    found = model.generate(state, 60, seed=5, temperature=0.8)
    exact = copy.deepcopy(model).double()
    assert torch.equal(exact.generate(exact.begin(torch.tensor([0, 1, -1])), 60, seed=5, temperature=0.8), found)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_temperature_zero_takes_the_most_probable_level(dtype: torch.dtype) -> None:
    model = small().to(dtype)
    state = model.start(2)
    found = model.generate(state, 20, temperature=0.0)
    assert torch.tensor([row[0].ids for row in greedy(model, state, 20)]).sub(model.first).tolist() == found.tolist()


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_sampled_levels_have_their_probabilities(temperature: float) -> None:
    model = small(n_levels=5)
    n = 4000
    counts = model.generate(model.start(n), 1, seed=1, temperature=temperature)[:, 0].bincount(minlength=5)
    p = torch.softmax(model.log_probs(model.start(1))[0, model.first :].double() / temperature, dim=0)
    expected = n * p
    assert ((counts - expected) ** 2 / expected).sum() < 18.5  # 4 degrees of freedom, p = 0.001


def test_generation_uses_changed_weights() -> None:
    model = small()
    state = model.start(1)
    before = model.generate(state, 40)
    with torch.no_grad():
        model.output.scores.bias += torch.linspace(-2, 2, model.n_levels)
    after = model.generate(state, 40)
    assert not torch.equal(before, after)
    fresh = small()
    fresh.load_state_dict(model.state_dict())
    assert torch.equal(fresh.generate(state, 40), after)


def test_long_recordings_are_scored_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    model = small(n_speakers=1, upsampling="repeat").double()
    stepper = model.conditioned(torch.tensor([0]), torch.randn(1, 10, 3).double())
    ids, lengths = levels(1, 50, model) + model.first, torch.tensor([50])
    whole = stepper.token_log_probs(ids, lengths)
    monkeypatch.setattr("catena.lm.wavenet.BLOCK", 7)
    torch.testing.assert_close(stepper.token_log_probs(ids, lengths), whole)


# --- errors -----------------------------------------------------------------------------------------------------------


def test_parts_of_different_sizes_raise() -> None:
    def encoder(**options: int) -> Dilated:
        return Dilated(4, 4, final_relu=True, **options)

    with pytest.raises(ConfigError, match=r"output.d_in must be 4, as encoder.d_out, got 5"):
        WaveNet(encoder(), Softmax(5, 9))
    with pytest.raises(ConfigError, match=r"encoder.d_in must be 4, as encoder.d, got 3"):
        WaveNet(Dilated(3, 4, final_relu=True), Softmax(4, 9))
    with pytest.raises(ConfigError, match="n_speakers must be 0 exactly if"):
        WaveNet(encoder(d_global=2), Softmax(4, 9))
    with pytest.raises(ConfigError, match=r"encoder.d_local must be 0, as upsampling.d, got 2"):
        WaveNet(encoder(d_local=2), Softmax(4, 9))
    with pytest.raises(ConfigError, match=r"encoder.final_relu must be True"):
        WaveNet(Dilated(4, 4), Softmax(4, 9))


def test_wrong_conditions_raise() -> None:
    model = small(n_speakers=2, upsampling="repeat")
    with pytest.raises(DataError, match="speakers must be below n_speakers = 2, got 2"):
        model.begin(torch.tensor([2]))
    with pytest.raises(ShapeError, match=r"condition.series must have 3 features, got 4"):
        model.encoder.project(Condition(series=torch.zeros(1, 5, 4)))
    with pytest.raises(ConfigError, match="temperature must be at least 0, got -1"):
        model.generate(model.start(1), 5, temperature=-1.0)
