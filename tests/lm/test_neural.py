"""Neural language models: the stepper laws for every kind, references with copied weights, edge cases."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from safetensors.torch import load, save
from torch import nn

from catena.config import parse
from catena.data.vocabulary import PAD, Vocabulary
from catena.embeddings.config import EmbeddingConfig
from catena.encoders.config import ConvolutionConfig, DilatedConfig, RecurrentConfig, TransformerConfig
from catena.errors import ConfigError, ShapeError
from catena.lm.base import SPECIALS
from catena.lm.neural import NeuralLanguageModel
from catena.lm.neural_build import build_neural
from catena.lm.neural_config import (
    AnyNeuralLMConfig,
    ConvolutionLMConfig,
    FeedForwardConfig,
    FeedForwardLMConfig,
    GRULMConfig,
    LSTMLMConfig,
    RNNLMConfig,
    TransformerLMConfig,
)
from catena.outputs.config import HierarchicalConfig
from tests.laws.stepper_laws import StepperLaws

WORDS = ["a", "b", "c", "d", "e", "f", "g"]


def vocabulary() -> Vocabulary:
    return Vocabulary(WORDS, counts=[9, 8, 7, 6, 5, 4, 3], specials=SPECIALS, unknown_count=2)


def recurrent(cell: str, **options: object) -> RecurrentConfig:
    return RecurrentConfig(**{"cell": cell, "d": 6, "n_layers": 2, "bidirectional": False, **options})


def transformer(**options: object) -> TransformerConfig:
    small = {"d": 8, "n_heads": 4, "n_layers": 2, "d_ff": 12, "causal": True, "max_length": 16}
    return TransformerConfig(**{**small, **options})


EMBEDDING = {"d": 6, "scale": 0.5}
KINDS: dict[str, AnyNeuralLMConfig] = {
    "rnn": RNNLMConfig(embedding=EMBEDDING, encoder=recurrent("elman")),
    "lstm": LSTMLMConfig(embedding=EMBEDDING, encoder=recurrent("lstm", connections="skip")),
    "peephole": LSTMLMConfig(embedding=EMBEDDING, encoder=recurrent("peephole_lstm"), tied=False),
    "coupled": LSTMLMConfig(embedding={"d": 5}, encoder=recurrent("coupled_lstm")),
    "gru": GRULMConfig(embedding=EMBEDDING, encoder=recurrent("gru", connections="residual")),
    "feed-forward": FeedForwardLMConfig(embedding=EMBEDDING, encoder=FeedForwardConfig(d=7, context=3), tied=False),
    "dilated": ConvolutionLMConfig(embedding=EMBEDDING, encoder=DilatedConfig(d=8, n_layers=3)),
    "convolution": ConvolutionLMConfig(
        embedding=EMBEDDING, encoder=ConvolutionConfig(windows=(2, 3), filters=4, n_layers=2, padding="causal")
    ),
    "transformer": TransformerLMConfig(embedding={"d": 8, "scale": 0.5}, encoder=transformer(positions="rotary")),
    "learned": TransformerLMConfig(embedding=EMBEDDING, encoder=transformer(positions="learned", norm="post")),
    "grouped": TransformerLMConfig(embedding=EMBEDDING, encoder=transformer(n_kv_heads=2)),
}


def build(name: str) -> NeuralLanguageModel:
    words = vocabulary()
    return build_neural(KINDS[name], words, words.counts, begin="<s>").double()


class TestStepping(StepperLaws):
    @pytest.fixture(params=KINDS)
    def make(self, request: pytest.FixtureRequest) -> Callable[[], NeuralLanguageModel]:
        return lambda: build(request.param).eval()


@pytest.mark.parametrize("name", KINDS)
def test_saving_and_loading_is_identity(name: str) -> None:
    one, other = build(name).eval(), build(name).eval()
    other.load_state_dict(load(save({k: v.contiguous().clone() for k, v in one.state_dict().items()})))
    ids, lengths = torch.tensor([[4, 5, 6, 3], [7, 3, 0, 0]]), torch.tensor([4, 2])
    assert torch.equal(one.token_log_probs(ids, lengths), other.token_log_probs(ids, lengths))


@pytest.mark.parametrize("name", KINDS)
def test_half_precision_scores_near_double(name: str) -> None:
    ids, lengths = torch.tensor([[4, 5, 6, 3], [7, 3, 0, 0]]), torch.tensor([4, 2])
    model = build(name).eval()
    exact = model.token_log_probs(ids, lengths)
    rough = model.bfloat16().token_log_probs(ids, lengths)
    assert torch.allclose(rough.double(), exact, atol=0.1)
    assert (rough[1, 2:] == 0).all()


@pytest.mark.parametrize("name", KINDS)
def test_neural_lm_all_parameters_get_gradients(name: str) -> None:
    model = build(name)
    ids = torch.tensor([[2, 4, 5, 6, 7, 8], [2, 9, 10, 4, 1, 5]])
    read = model.read(ids[:, :-1])
    model.output.loss(read.hidden.flatten(0, 1), ids[:, 1:].flatten()).backward()
    moved = [(name, p.grad) for name, p in model.named_parameters() if p.requires_grad]
    assert [name for name, gradient in moved if gradient is None or not gradient.any()] == []


@pytest.mark.parametrize("name", KINDS)
def test_neural_lm_edge_case_sequences(name: str) -> None:
    model = build(name).eval()
    assert model.token_log_probs(torch.zeros(0, 3, dtype=torch.long), torch.zeros(0, dtype=torch.long)).shape == (0, 3)
    one = model.token_log_probs(torch.tensor([[model.end]]), torch.tensor([1]))
    torch.testing.assert_close(one[0, 0], model.log_probs(model.start(1))[0, model.end])
    unknown = model.token_log_probs(torch.ones(1, 9, dtype=torch.long), torch.tensor([9]))
    assert unknown.isfinite().all()
    assert (unknown < 0).all()


def test_neural_lm_special_tokens_are_impossible() -> None:
    model = build("lstm").eval()
    log_probs = model.log_probs(model.start(2))
    assert (log_probs[:, [PAD, model.begin]] == -torch.inf).all()
    assert log_probs[:, [1, model.end, 4]].isfinite().all()


def test_neural_lm_word_depends_only_on_previous_words() -> None:
    model = build("transformer").eval()
    ids = torch.tensor([[4, 5, 6, 7, 8]])
    found = model.token_log_probs(ids, torch.tensor([5]))
    for i in range(5):
        changed = ids.clone()
        changed[:, i] = 10
        other = model.token_log_probs(changed, torch.tensor([5]))
        assert torch.equal(other[:, :i] == found[:, :i], torch.ones(1, i, dtype=torch.bool))
        assert (other[:, i:] != found[:, i:]).all(), "the word itself, and the words after it"


def test_neural_lm_tied_weights_with_projection() -> None:
    model = build("coupled")
    weights = [p for p in model.parameters() if p.shape == (len(model.vocabulary), 5)]
    assert len(weights) == 1
    assert isinstance(model.bridge, nn.Linear)
    assert (model.bridge.in_features, model.bridge.out_features) == (6, 5)
    untied = build("peephole")
    assert isinstance(untied.bridge, nn.Identity)
    assert sum(p.shape[0] == len(untied.vocabulary) for p in untied.parameters() if p.ndim == 2) == 2


def test_neural_lm_equals_torch_lstm_and_softmax() -> None:
    settings = LSTMLMConfig(embedding=EMBEDDING, encoder=recurrent("lstm"), tied=False, dropout_input=0.0)
    words = vocabulary()
    model = build_neural(settings, words, words.counts, begin="<s>").eval()
    stranger, linear = nn.LSTM(6, 6, num_layers=2, batch_first=True), nn.Linear(6, len(words))
    with torch.no_grad():
        for i, recurrence in enumerate(model.encoder.forwards):
            for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
                getattr(stranger, f"{kind}_l{i}").copy_(getattr(recurrence.network, f"{kind}_l0"))
        linear.weight.copy_(model.output.scores.weight)
        linear.bias.copy_(model.output.scores.effective_bias)
        ids = torch.tensor([[4, 5, 6, 7, 3]])
        before = torch.tensor([[model.begin, 4, 5, 6, 7]])
        logits = linear(stranger(nn.functional.embedding(before, model.embedding.weight))[0])
        wanted = logits.log_softmax(-1).gather(-1, ids[..., None])[..., 0]
        torch.testing.assert_close(model.token_log_probs(ids, torch.tensor([5])), wanted, atol=1e-5, rtol=1e-5)


def test_neural_lm_memorizes_one_batch() -> None:
    words = vocabulary()
    settings = GRULMConfig(
        embedding={"d": 16, "scale": 0.5}, encoder=recurrent("gru", d=32), dropout_input=0.0, dropout_output=0.0
    )
    model = build_neural(settings, words, words.counts, begin="<s>")
    ids = torch.tensor([[4, 6, 8, 6, 10, 3], [5, 5, 7, 9, 4, 3]])
    before = torch.cat((torch.full((2, 1), model.begin), ids[:, :-1]), 1)
    optimizer = torch.optim.Adam(model.parameters(), 0.02)
    for _ in range(80):
        optimizer.zero_grad()
        loss = model.output.loss(model.read(before).hidden.flatten(0, 1), ids.flatten())
        loss.backward()
        optimizer.step()
    model.eval()
    assert model.token_log_probs(ids, torch.tensor([6, 6])).sum(1).exp().min() > 0.4, (
        "one of two texts, by the first word"
    )
    state = model.advance(model.start(2), ids[:, 0])
    for i in range(1, 6):
        assert torch.equal(model.log_probs(state).argmax(1), ids[:, i])
        state = model.advance(state, ids[:, i])


def test_word_dropout_drops_all_tokens_of_a_word() -> None:
    words = vocabulary()
    settings = LSTMLMConfig(embedding=EMBEDDING, encoder=recurrent("lstm"), dropout_input=0.0, dropout_words=0.5)
    model = build_neural(settings, words, words.counts).train()
    ids = torch.arange(4, 11).repeat(3, 2)
    with torch.no_grad():
        model.embedding.weight.fill_(1.0)
        x = model.vectors(ids)
    assert set(x.flatten().tolist()) == {0.0, 2.0}
    assert (x == x[:1, :7].repeat(3, 2, 1)).all()
    assert (x == x[..., :1]).all()
    assert (model.eval().vectors(ids) == 1).all()


def test_neural_lm_incompatible_parts_raise() -> None:
    model = build("lstm")
    with pytest.raises(ShapeError, match="must be 5, the size of the embedding's vectors, got 6"):
        NeuralLanguageModel(build("coupled").embedding, model.encoder, model.output, vocabulary(), begin=2, end=3)
    both = LSTMLMConfig(embedding=EMBEDDING, encoder=recurrent("lstm", bidirectional=True))
    with pytest.raises(ConfigError, match="depends on later positions"):
        build_neural(both, vocabulary(), vocabulary().counts)
    with pytest.raises(ValueError, match=r"must be trainable if tied = true, got .*\. Set tied = false"):
        LSTMLMConfig(embedding={"mode": "static", "vectors": "v.txt"}, tied=True)


def test_tied_defaults_to_false_if_weights_cannot_be_tied() -> None:
    hierarchical = HierarchicalConfig()
    assert LSTMLMConfig().tied
    assert LSTMLMConfig(output=HierarchicalConfig(tree="classes")).tied
    assert not LSTMLMConfig(output=hierarchical).tied
    assert not LSTMLMConfig(output={"kind": "hierarchical", "tree": "balanced"}).tied
    assert not LSTMLMConfig(embedding=EmbeddingConfig(d=4, mode="static", vectors="some.txt")).tied
    with pytest.raises(ValueError, match=r"output\.tree must be 'classes' if tied = true, got 'huffman'"):
        LSTMLMConfig(output=hierarchical, tied=True)
    assert not parse(GRULMConfig, {"output": {"kind": "hierarchical"}}).tied
