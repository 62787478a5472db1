"""Captions: laws of encoder-decoders, the equations by loops, and hard attention by enumeration."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from catena import config as configs
from catena.encoders.image_config import HighwayImageConfig, ImageEncoderConfig, ResNetConfig, VGGConfig
from catena.errors import ConfigError
from catena.seq2seq.base import EncoderDecoder, Source, VocabularyInfo
from catena.seq2seq.caption import CaptionModel, GridReader, PictureSource, WordPredictor
from catena.seq2seq.caption_config import FeatureEncoderConfig, HardCaptionConfig, SoftCaptionConfig
from tests.laws.seq2seq_laws import SIDES, EncoderDecoderLaws, padded

D = 6
"""Size of a feature vector."""
SIZES: dict[str, Any] = {
    "encoder": {"kind": "features", "d_features": D, "n_positions": 6}, "d": 5, "d_embedding": 4, "d_attention": 3,
}  # fmt: skip


def parse(kind: str, values: dict[str, Any]) -> SoftCaptionConfig:
    return configs.parse(HardCaptionConfig if kind == "hard" else SoftCaptionConfig, values)


def build(kind: str = "soft", **options: Any) -> CaptionModel:
    torch.manual_seed(3)
    return CaptionModel(parse(kind, {**SIZES, **options}), SIDES).double().eval()


def features(rows: list[list[int]], width: int = 0, fill: int = 0) -> PictureSource:
    """A feature vector for each id, the same for equal ids."""
    ids, lengths = padded(rows, width, fill)
    table = torch.randn(9, D, dtype=torch.float64, generator=torch.Generator().manual_seed(7)).to(ids.device)
    return PictureSource.build(table[ids], lengths, ids.shape[1])


class CaptionLaws(EncoderDecoderLaws):
    """The laws for features of any number of positions."""

    def source(self, rows: list[list[int]], width: int = 0, fill: int = 0) -> Source:
        return features(rows, width, fill)


class TestSoft(CaptionLaws):
    @pytest.fixture(params=[{}, {"gate": False, "cell": "gru"}], ids=str)
    def make_model(self, request: pytest.FixtureRequest) -> Callable[[], EncoderDecoder]:
        return lambda: build(dropout=0.3, **request.param)


class TestHard(CaptionLaws):
    @pytest.fixture(params=["expectation", "best"])
    def make_model(self, request: pytest.FixtureRequest) -> Callable[[], EncoderDecoder]:
        return lambda: build("hard", evaluation=request.param)


# --- the equations ----------------------------------------------------------------------------------------------------


def softmax(scores: list[float]) -> list[float]:
    total = sum(math.exp(s) for s in scores)
    return [math.exp(s) / total for s in scores]


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def times(matrix: Tensor, x: list[float], bias: Tensor | None = None) -> list[float]:
    rows, added = matrix.tolist(), [0.0] * len(matrix) if bias is None else bias.tolist()
    return [sum(w * v for w, v in zip(row, x, strict=True)) + b for row, b in zip(rows, added, strict=True)]


def normalized(x: list[float]) -> list[float]:
    mean = sum(x) / len(x)
    deviation = math.sqrt(sum((v - mean) ** 2 for v in x) / len(x) + 1e-5)
    return [(v - mean) / deviation for v in x]


def caption_by_loops(
    model: CaptionModel, pixels: list[list[float]], target: list[int], positions: list[int] | None = None
) -> tuple[list[float], list[list[float]]]:
    """log p of each word and the attention, by equations 4 to 9; with ``positions``, attending to one at a time."""
    p = {name: value.detach() for name, value in model.named_parameters()}
    areas = [normalized(area) for area in pixels]
    mean = [sum(area[j] for area in areas) / len(areas) for j in range(D)]
    h, c = ([math.tanh(x) for x in times(p[f"first.{k}.weight"], mean, p[f"first.{k}.bias"])] for k in (0, 1))
    log_probs, attention, d = [], [], len(h)
    for t, word in enumerate(target):
        of_state = times(p["looking.scores.0.query.weight"], h, p["looking.scores.0.query.bias"])
        scores = []
        for area in areas:
            both = zip(of_state, times(p["looking.scores.0.keys.weight"], area), strict=True)
            v = p["looking.scores.0.weight"].tolist()
            scores.append(sum(w * math.tanh(a + b) for w, (a, b) in zip(v, both, strict=True)))
        alpha = softmax(scores)
        weights = alpha if positions is None else [float(i == positions[t]) for i in range(len(areas))]
        beta = sigmoid(times(p["decoder.gate.weight"], h, p["decoder.gate.bias"])[0])
        z = [beta * sum(w * area[j] for w, area in zip(weights, areas, strict=True)) for j in range(D)]
        before = p["target.weight"][SIDES.begin if t == 0 else target[t - 1]].tolist()
        cell = "decoder.stack.layers.0.network"
        of_input = times(p[f"{cell}.weight_ih_l0"], before + z, p[f"{cell}.bias_ih_l0"])
        of_past = times(p[f"{cell}.weight_hh_l0"], h, p[f"{cell}.bias_hh_l0"])
        gates = [a + b for a, b in zip(of_input, of_past, strict=True)]
        i, f, g, o = (gates[k * d : (k + 1) * d] for k in range(4))
        c = [sigmoid(f[j]) * c[j] + sigmoid(i[j]) * math.tanh(g[j]) for j in range(d)]
        h = [sigmoid(o[j]) * math.tanh(c[j]) for j in range(d)]
        parts = (
            before,
            times(p["decoder.of_state.weight"], h, p["decoder.of_state.bias"]),
            times(p["decoder.of_context.weight"], z),
        )
        logits = output_logits(model, [sum(values) for values in zip(*parts, strict=True)])
        log_probs.append(logits[word] - math.log(sum(math.exp(x) for x in logits)))
        attention.append(alpha)
    return log_probs, attention


def output_logits(model: CaptionModel, vector: list[float]) -> list[float]:
    p = {name: value.detach() for name, value in model.output.named_parameters()}
    logits = times(p["scores.weight"], vector, p["scores.bias"])
    return [-math.inf if i in SIDES.forbidden else x for i, x in enumerate(logits)]


SOURCES, TARGETS = [[4, 5, 6, 7], [1, 8]], [[4, 5, 3], [6, 7, 7, 4, 3]]


def test_probabilities_and_attention_equal_loops() -> None:
    model, source = build(), features(SOURCES)
    targets, lengths = padded(TARGETS)
    found = model.token_log_probs(source, targets, lengths)
    weights = model.attention(source, targets, lengths)[0][:, 0]
    assert len(TARGETS) == 2
    for row, target in enumerate(TARGETS):
        n = len(SOURCES[row])
        log_probs, attention = caption_by_loops(model, source.content[row, :n].tolist(), target)
        assert found[row, : len(target)].tolist() == pytest.approx(log_probs, abs=1e-10)
        assert torch.allclose(weights[row, : len(target), :n], torch.tensor(attention, dtype=torch.float64), atol=1e-10)


def test_order_of_positions_only_permutes_the_attention() -> None:
    model, source = build(), features([[4, 5, 6, 7]])
    targets, lengths = padded([[4, 5, 3]])
    order = torch.tensor([2, 0, 3, 1])
    other = PictureSource.build(source.content[:, order], source.lengths, 4)
    wanted = model.token_log_probs(source, targets, lengths)
    assert torch.allclose(model.token_log_probs(other, targets, lengths), wanted, atol=1e-12)
    weights = model.attention(source, targets, lengths)[0]
    assert torch.allclose(model.attention(other, targets, lengths)[0], weights[..., order], atol=1e-12)


def test_blind_model_is_the_same_for_all_pictures() -> None:
    targets, lengths = padded([[4, 5, 3], [4, 5, 3]])
    seen = build().token_log_probs(features([[4, 5], [6, 7]]), targets, lengths)
    blind = build(blind=True).token_log_probs(features([[4, 5], [6, 7]]), targets, lengths)
    assert not torch.allclose(seen[0], seen[1])
    assert torch.equal(blind[0], blind[1])


def test_loss_in_training_adds_doubly_stochastic_term_by_formula() -> None:
    model, source = build(dropout=0.0, doubly_stochastic=0.7), features(SOURCES)
    model.train()
    targets, lengths = padded(TARGETS, 7)
    n = sum(map(len, TARGETS))
    total = 0.0
    for row, target in enumerate(TARGETS):
        log_probs, alpha = caption_by_loops(model, source.content[row, : len(SOURCES[row])].tolist(), target)
        uneven = [1 - sum(alpha[t][i] for t in range(len(target))) for i in range(len(SOURCES[row]))]
        total += -sum(log_probs) + 0.7 * sum(x * x for x in uneven)
    assert model.loss(source, targets, lengths).item() == pytest.approx(total / n, abs=1e-10)


def test_loss_in_training_adds_the_words_of_captions_by_formula() -> None:
    model, source = build(dropout=0.0, doubly_stochastic=0.0, word_weight=0.3), features(SOURCES)
    assert model.words is not None
    torch.nn.init.normal_(model.words.logits.weight)
    targets, lengths = padded(TARGETS, 7)
    n = sum(map(len, TARGETS))
    wanted = model.loss(source, targets, lengths).item()  # in evaluation, without the words
    p = {name: value.detach() for name, value in model.named_parameters()}
    for row, target in enumerate(TARGETS):
        parts = model.encode(source).states[row, : len(SOURCES[row])].detach()
        mean = (parts.sum(dim=0) / len(SOURCES[row])).tolist()
        scores = times(p["words.logits.weight"], mean, p["words.logits.bias"])
        for word, score in enumerate(scores):
            if word not in (*SIDES.forbidden, SIDES.end):
                probability = sigmoid(score)
                wanted -= 0.3 * math.log(probability if word in target else 1 - probability) / n
    model.train()
    assert model.loss(source, targets, lengths).item() == pytest.approx(wanted, abs=1e-10)


def test_a_new_word_predictor_gives_the_frequencies() -> None:
    sides = VocabularyInfo(n_source=0, counts=[0, 0, 0, 40, 10, 30, 400], begin=2, end=3, forbidden=(0, 2))
    words = WordPredictor(4, sides)
    found = torch.sigmoid(words.logits(torch.randn(4)))
    assert found[[4, 5, 6]].tolist() == pytest.approx([0.25, 0.75, 0.9], abs=1e-6)  # at most 0.9


@pytest.mark.parametrize("mixed", [False, True])
def test_losses_of_words_of_pictures_by_formula(mixed: bool) -> None:
    """Pictures with two, one and three captions: the fractions of captions with each word, mixed like the pixels."""
    model = pixel_model(ResNetConfig(depth=8, width=4), word_weight=1.0).double().eval()
    assert model.words is not None
    torch.nn.init.normal_(model.words.logits.weight)
    pixels, weights = torch.rand(3, 3, 16, 24, dtype=torch.float64), [0.3, 1.0, 0.8]
    captions = [[[4, 5, 3], [5, 5, 3]], [[6, 7, 7, 3]], [[3], [4, 3], [7, 4, 6, 5, 3]]]
    source = PictureSource.build(pixels, torch.full((3,), 24), 24).repeat(torch.tensor([0, 0, 1, 2, 2, 2]))
    targets, lengths = padded([ids for own in captions for ids in own], 7)
    found = model.word_losses(source, targets, lengths, torch.tensor(weights) if mixed else None)
    fractions = [[sum(word in ids for ids in own) / len(own) for word in range(SIDES.v)] for own in captions]
    content = pixels
    if mixed:
        content = torch.stack([w * pixels[i] + (1 - w) * pixels[i - 1] for i, w in enumerate(weights)])
        fractions = [
            [w * a + (1 - w) * b for a, b in zip(fractions[i], fractions[i - 1], strict=True)]
            for i, w in enumerate(weights)
        ]
    p = {name: value.detach() for name, value in model.named_parameters()}
    for i in range(3):
        mean = model.pictures(content[i : i + 1])[0].mean(dim=0).tolist()
        scores = times(p["words.logits.weight"], mean, p["words.logits.bias"])
        wanted = 0.0
        for word, score in enumerate(scores):
            if word not in (*SIDES.forbidden, SIDES.end):
                probability, fraction = sigmoid(score), fractions[i][word]
                wanted -= fraction * math.log(probability) + (1 - fraction) * math.log(1 - probability)
        assert found[i].item() == pytest.approx(wanted, abs=1e-6)  # the weights are float32


def test_captions_of_a_picture_encode_it_once() -> None:
    """Repeated pictures give the loss and the gradients of copies, and the encoder sees each once."""
    model = pixel_model(ResNetConfig(depth=8, width=4), dropout=0.0, word_weight=0.5).double()
    model.eval()  # batch normalization would weight the pictures
    pixels = torch.rand(2, 3, 16, 24, dtype=torch.float64)
    single = PictureSource.build(pixels, torch.full((2,), 24), 24)
    rows = torch.tensor([1, 0, 1])
    copied, repeated = single.select(rows), single.repeat(rows)
    seen: list[int] = []
    model.pictures.register_forward_pre_hook(lambda _, given: seen.append(len(given[0])))
    targets, lengths = padded([[4, 3], [5, 6, 3], [7, 3]])
    losses = [model.loss(source, targets, lengths) for source in (copied, repeated)]
    assert seen == [3, 2]
    assert losses[1].item() == pytest.approx(losses[0].item(), abs=1e-12)
    gradients = [torch.autograd.grad(loss, list(model.pictures.parameters())) for loss in losses]
    for a, b in zip(*gradients, strict=True):
        assert torch.allclose(a, b, atol=1e-12)
    order = torch.tensor([2, 1])
    for chosen in (repeated.select(order), repeated.repeat(order), repeated.to(torch.device("cpu")).select(order)):
        wanted = model.token_log_probs(copied.select(order), targets[order], lengths[order])
        assert torch.allclose(model.token_log_probs(chosen, targets[order], lengths[order]), wanted, atol=1e-12)


# --- hard attention ---------------------------------------------------------------------------------------------------


def drawing(model: CaptionModel, positions: tuple[int, ...]) -> None:
    """Make the model sample these positions, for any probabilities."""
    queue = list(positions)
    model.sampler.draw = lambda p: torch.full(p.shape[:3], queue.pop(0))  # type: ignore[method-assign]


def hard_model(**options: Any) -> CaptionModel:
    given = {"dropout": 0.0, "entropy_weight": 0.0, "mixing": 0.0, **options}
    model = build("hard", **given)
    model.train()
    return model


def entropy(alpha: list[float]) -> float:
    return -sum(x * math.log(x) for x in alpha)


@pytest.mark.parametrize("baseline", ["mean", "caption"])
@pytest.mark.parametrize(("reward_weight", "entropy_weight"), [(1.0, 0.0), (0.4, 0.3)])
def test_mean_gradient_of_samples_equals_enumeration(
    reward_weight: float, entropy_weight: float, baseline: str
) -> None:
    """Three positions and two words: the mean over all nine samples is the exact gradient, for any baseline.

    The exact objective is sum_s p(s) log p(y | s); with another weight, the term of p(s) is scaled.
    """
    model = hard_model(reward_weight=reward_weight, entropy_weight=entropy_weight, baseline=baseline)
    assert model.reinforce is not None
    source, (targets, lengths) = features([[4, 5, 6]]), padded([[6, 3]])
    parameters = [p for p in model.parameters() if p.requires_grad]
    exact = torch.zeros((), dtype=torch.float64)
    estimate = [torch.zeros_like(p) for p in parameters]
    for positions in itertools.product(range(3), repeat=2):
        drawing(model, positions)
        looked = model.decode(model.encode(source), model.shifted(targets))
        assert looked.looked is not None
        assert looked.looked.log_prob is not None
        assert looked.looked.probabilities is not None
        log_p, probability = model._log_prob(looked, targets, targets > 0).sum(), looked.looked.log_prob.sum().exp()
        alpha = looked.looked.probabilities[0, 0]
        more = entropy_weight * -(alpha * alpha.log()).sum()
        exact = exact - probability.detach() * (log_p + more) / 2 - reward_weight * probability * log_p.detach() / 2
        drawing(model, positions)
        model.reinforce.baseline.fill_(-0.7)
        gradients = torch.autograd.grad(model.loss(source, targets, lengths), parameters)
        for mean, gradient in zip(estimate, gradients, strict=True):
            mean += probability.detach() * gradient
    wanted = torch.autograd.grad(exact, parameters)
    assert sum(g.abs().sum().item() for g in wanted) > 0.1
    for mean, gradient in zip(estimate, wanted, strict=True):
        assert torch.allclose(mean, gradient, rtol=0, atol=1e-10)


def test_baseline_caption_subtracts_the_log_prob_in_evaluation() -> None:
    """The reward of each position is what follows it, compared with soft attention to the same caption."""
    model, source = hard_model(baseline="caption"), features(SOURCES)
    targets, lengths = padded(TARGETS)
    model.eval()
    soft = model.token_log_probs(source, targets, lengths)
    model.train()
    passed: list[Tensor] = []
    assert model.reinforce is not None
    model.reinforce.register_forward_pre_hook(lambda _, given: passed.append(given[3]))
    model.loss(source, targets, lengths)
    assert model.training
    assert torch.allclose(passed[0], soft)
    assert not passed[0].requires_grad
    rewards = model.reinforce.baseline.item()
    assert 0 < abs(rewards) < 1  # sampled minus soft, not a log-probability of about -2


def test_sampled_caption_equals_loops_with_these_positions() -> None:
    model, source = hard_model(entropy_weight=0.3, doubly_stochastic=0.5), features([[4, 5, 6, 7]])
    targets, lengths = padded([[4, 5, 3]])
    drawing(model, (2, 0, 3))
    loss = model.loss(source, targets, lengths).item()
    log_probs, alpha = caption_by_loops(model, source.content[0].tolist(), [4, 5, 3], [2, 0, 3])
    uneven = sum((1 - sum(alpha[t][i] for t in range(3))) ** 2 for i in range(4))
    total = -sum(log_probs) - 0.3 * sum(map(entropy, alpha)) + 0.5 * uneven
    assert loss == pytest.approx(total / 3, abs=1e-10)


def test_mixing_one_is_soft_attention() -> None:
    hard, soft = hard_model(mixing=1.0, doubly_stochastic=1.0), build(dropout=0.0)
    soft.train()
    soft.load_state_dict({k: v for k, v in hard.state_dict().items() if not k.startswith("reinforce")})
    source, (targets, lengths) = features(SOURCES), padded(TARGETS)
    assert hard.loss(source, targets, lengths).item() == pytest.approx(soft.loss(source, targets, lengths).item())


def test_mixing_chooses_for_whole_captions() -> None:
    model = hard_model(mixing=0.5)
    source, (targets, _) = features([[4, 5, 6]] * 40), padded([[4, 5, 3]] * 40)
    torch.manual_seed(1)
    looked = model.decode(model.encode(source), model.shifted(targets)).looked
    assert looked is not None
    assert looked.log_prob is not None
    sampled = (looked.weights[:, 0].max(dim=-1).values == 1).sum(dim=1)  # words of each caption with one position
    assert set(sampled.tolist()) == {0, 3}
    assert 8 < (sampled == 3).sum() < 32
    assert torch.equal(looked.log_prob.ne(0).all(dim=1), sampled == 3)


def test_sampled_positions_have_their_probabilities() -> None:
    model = hard_model()
    n = 4000
    source, (targets, _) = features([[4, 5, 6]] * n), padded([[3]] * n)
    torch.manual_seed(2)
    looked = model.decode(model.encode(source), model.shifted(targets)).looked
    assert looked is not None
    assert looked.probabilities is not None
    counts = looked.weights[:, 0, 0].mean(dim=0)
    assert torch.allclose(counts, looked.probabilities[0, 0, 0].detach(), atol=0.04)  # five deviations


def test_best_attends_to_the_most_probable_position() -> None:
    source, (targets, lengths) = features(SOURCES), padded(TARGETS)
    soft = build("hard").attention(source, targets, lengths)[0][:, 0, 0]
    best = build("hard", evaluation="best").attention(source, targets, lengths)[0][:, 0, 0]
    assert torch.equal(best.argmax(dim=-1), soft.argmax(dim=-1))
    assert set(best.flatten().tolist()) == {0.0, 1.0}


# --- pixels -----------------------------------------------------------------------------------------------------------


def pixel_model(encoder: ImageEncoderConfig, **options: Any) -> CaptionModel:
    values = {**SIZES, "encoder": encoder, "input": {"height": 16, "width": 24}, **options}
    torch.manual_seed(0)
    return CaptionModel(parse("soft", values), SIDES)


@pytest.mark.parametrize(
    ("encoder", "grid"),
    [(ResNetConfig(depth=8, width=4), (4, 6)), (VGGConfig(variant="A", width=0.05, d_dense=8), (1, 1))],
    ids=["resnet", "vgg"],
)
def test_positions_are_the_grid_row_by_row(encoder: Any, grid: tuple[int, int]) -> None:
    size = {"height": 32, "width": 32} if encoder.kind == "vgg" else {"height": 16, "width": 24}
    model = pixel_model(encoder, input=size).eval()
    assert isinstance(model.pictures, GridReader)
    assert model.pictures.grid == grid
    assert model.n_positions == grid[0] * grid[1]
    pixels = torch.rand(2, 3, *size.values())
    wanted = model.pictures.network.encode_grid(model.pictures.pixels(pixels))
    found = model.encode(PictureSource.build(pixels, torch.full((2,), model.n_positions), model.n_positions)).states
    position = model.n_positions - 1
    vector = wanted[:, :, position // grid[1], position % grid[1]]
    assert torch.allclose(found[:, position], model.pictures.norm(vector), atol=1e-6)


def test_pixel_encoder_gets_gradients_unless_frozen() -> None:
    for frozen in (False, True):
        model = pixel_model(ResNetConfig(depth=8, width=4), frozen=frozen)
        source = PictureSource.build(torch.rand(3, 3, 16, 24), torch.full((3,), 24), 24)
        before = [buffer.clone() for buffer in model.pictures.buffers()]
        model.loss(source, *padded([[4, 3]] * 3)).backward()
        trained = [p.grad is not None for p in model.pictures.network.parameters()]
        assert any(trained) == all(trained) == (not frozen)
        same = [torch.equal(a, b) for a, b in zip(before, model.pictures.buffers(), strict=True)]
        assert all(same) == frozen


def test_select_and_to_keep_the_pictures() -> None:
    source = features(SOURCES)
    turned = source.select(torch.tensor([1, 0, 1])).to(torch.device("cpu"))
    assert torch.equal(turned.content, source.content[[1, 0, 1]])
    assert turned.lengths.tolist() == [2, 4, 2]


@pytest.mark.parametrize(
    ("kind", "values", "words"),
    [
        ("soft", {"encoder": HighwayImageConfig(form="dense")}, "encoder.form must be 'convolution'"),
        ("soft", {"encoder": FeatureEncoderConfig(), "encoder_run": "runs/a"}, "encoder_run must not be set"),
        ("hard", {"output": {"smoothing": 0.1}}, "output.smoothing must be 0 for hard attention"),
    ],
)
def test_wrong_configs_raise(kind: str, values: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        parse(kind, values)
