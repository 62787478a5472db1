"""Recurrent encoder-decoders compared to torch's networks with the same weights, their configs, and training."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor, nn
from torch.nn import functional as F

from catena.errors import ConfigError
from catena.outputs.config import HierarchicalConfig
from catena.search.beam_search import beam
from catena.search.greedy_search import greedy
from catena.seq2seq.base import Source, VocabularyInfo
from catena.seq2seq.build import build_encoder_decoder
from catena.seq2seq.config import RecurrentSeq2SeqConfig
from tests.laws.seq2seq_laws import SIDES, padded
from tests.seq2seq.test_recurrent import maker

SOURCES, TARGETS = [[4, 5, 6, 1], [7, 4, 4, 8]], [[4, 5, 3], [6, 7, 3]]


def copied(into: nn.Module, layers: list[nn.Module]) -> None:
    """Copy the weights of single layers into one torch network."""
    with torch.no_grad():
        for i, layer in enumerate(layers):
            for name, weights in layer.named_parameters():
                getattr(into, name.split(".")[-1].replace("_l0", f"_l{i}")).copy_(weights)


@pytest.mark.parametrize("attention", ["none", "dot", "scaled"])
def test_recurrent_equals_torch_networks(attention: str) -> None:
    model: Any = maker({"attention": attention, "input_feeding": False, "n_layers": 2, "tied": False})()
    encoder = nn.LSTM(4, 3, 2, bidirectional=True, batch_first=True).double()
    decoder = nn.LSTM(4, 6, 2, batch_first=True).double()
    copied(encoder, list(model.encoder.layers))
    copied(decoder, list(model.decoder.stack.layers))
    source, (targets, lengths) = Source(*padded(SOURCES)), padded(TARGETS)
    x, y = model.source(source.ids), model.target(model.shifted(targets))
    states, last = encoder(x)
    handed = tuple(part.unflatten(0, (2, 2)).transpose(1, 2).flatten(2) for part in last)  # layers b 2·d
    hidden, _ = decoder(y, tuple(part.contiguous() for part in handed))
    if attention != "none":
        scale = 1.0 if attention == "dot" else None
        context = F.scaled_dot_product_attention(hidden, states, states, scale=scale)
        hidden = torch.tanh(model.decoder.readout(torch.cat((context, hidden), -1)))
    logits = (hidden @ model.output.scores.weight.t() + model.output.scores.bias).index_fill(
        2, torch.tensor(SIDES.forbidden), -torch.inf
    )
    wanted = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
    loss = model.loss(source, targets, lengths)
    assert loss.item() == pytest.approx(wanted.item(), abs=1e-10)
    pairs = [(model.encoder.layers[i].network, encoder, i) for i in range(2)]
    pairs += [(model.decoder.stack.layers[i].network, decoder, i) for i in range(2)]
    ours = torch.autograd.grad(loss, [p for network, _, _ in pairs for p in network.parameters()])
    theirs = torch.autograd.grad(
        wanted,
        [
            getattr(other, n.replace("_l0", f"_l{i}"))
            for network, other, i in pairs
            for n, _ in network.named_parameters()
        ],
    )
    for a, b in zip(ours, theirs, strict=True):
        assert torch.allclose(a, b, rtol=0, atol=1e-10)


def test_gnmt_stack_equals_torch_cells() -> None:
    """One bidirectional layer below residual ones; the lowest decoder layer attends, and all read the context."""
    options = {"order": "gnmt", "n_layers": 4, "residual": True, "bidirectional": "first", "attention": "dot"}
    model: Any = maker({**options, "tied": False})()
    source, (targets, lengths) = Source(*padded(SOURCES)), padded(TARGETS)
    states, layers = model.source(source.ids), []
    for i, layer in enumerate(model.encoder.layers):
        peer = nn.LSTM(states.shape[2], 6 if i else 3, bidirectional=not i, batch_first=True).double()
        copied(peer, [layer])
        above, last = peer(states)
        states = above + states if i > 1 else above
        layers.append([part.transpose(0, 1).flatten(1) for part in last])
    logits = []
    for vectors in model.target(model.shifted(targets)).unbind(1):
        weights = (states @ layers[0][0][:, :, None]).softmax(dim=1)
        context, below = (weights * states).sum(dim=1), vectors
        for i, layer in enumerate(model.decoder.stack.layers):
            cell = nn.LSTMCell(6 + below.shape[1], 6).double()
            cell.load_state_dict({name.removesuffix("_l0"): part for name, part in layer.network.named_parameters()})
            layers[i] = cell(torch.cat((below, context), dim=1), layers[i])
            below = layers[i][0] + below if i > 1 else layers[i][0]
        logits.append(below @ model.output.scores.weight.t() + model.output.scores.bias)
    forbidden = torch.tensor(SIDES.forbidden)
    wanted = torch.stack(logits, dim=1).index_fill(2, forbidden, -torch.inf).log_softmax(dim=2)
    found = model.token_log_probs(source, targets, lengths)
    assert torch.allclose(found, wanted.gather(2, targets[..., None])[..., 0], rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    "kind",
    [
        {"kind": "sampled", "k": 3},
        {"kind": "partitioned", "size": 6},
        {"kind": "adaptive", "cutoffs": (2, 4)},
        {"kind": "hierarchical", "tree": "huffman"},
        {"kind": "nce", "k": 3},
    ],
    ids=lambda kind: kind["kind"],
)
def test_recurrent_with_any_output_layer(kind: dict[str, Any]) -> None:
    model = maker({"output": kind, "tied": False})()
    source, targets = Source(*padded(SOURCES)), padded(TARGETS)
    model.train().loss(source, *targets).backward()
    found = model.eval().token_log_probs(source, *targets)
    assert torch.allclose(found, model.stepper(source).token_log_probs(*targets), atol=1e-9)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"d": 7}, "d must be even for .*, got 7. Use 8, or bidirectional = 'none'"),
        ({"d": 8, "n_heads": 3}, "d must be divisible by n_heads = 3, got 8"),
        ({"residual": True}, "n_layers must be at least 3 if residual = true, got 1"),
        (
            {"attention_kind": "marginal"},
            "got 'luong', true and 1. Set order = 'luong', input_feeding = false",
        ),
        ({"attention_kind": "marginal", "input_feeding": False, "order": "gnmt"}, "got 'gnmt', false and 1"),
        (
            {"attention": "none", "attention_kind": "hard_sampled"},
            "attention must be a score for attention_kind = 'hard_sampled', got 'none'",
        ),
        (
            {"attention_kind": "hard_sampled", "output": {"kind": "sampled"}},
            "for attention_kind = 'hard_sampled', which needs log-probabilities, got 'sampled'",
        ),
        (
            {"attention_kind": "marginal", "input_feeding": False, "output": {"kind": "softmax", "smoothing": 0.1}},
            "got 'softmax' with smoothing = 0.1. Change output.kind, and set output.smoothing = 0",
        ),
        ({"d": 7, "residual": True, "bidirectional": "first"}, "d must be even .*; n_layers must be at least 3"),
        ({"attention": "scalar"}, "attention"),
        ({"output": "hierarchical"}, "Input should be a valid dictionary"),
        (
            {"output": {"kind": "hierarchical"}, "tied": True},
            "output.tree must be 'classes' if tied = true, got 'huffman'.* Remove tied",
        ),
    ],
)
def test_recurrent_config_inconsistent_values_raise(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        RecurrentSeq2SeqConfig(**values)


def test_recurrent_config_tied_defaults_to_possible_cases() -> None:
    given: list[tuple[Any, bool]] = [
        ({"kind": "softmax"}, True),
        ({"kind": "hierarchical"}, False),
        ({"kind": "hierarchical", "tree": "balanced"}, False),
        (HierarchicalConfig(), False),
        ({"kind": "hierarchical", "tree": "classes"}, True),
    ]
    assert [RecurrentSeq2SeqConfig(output=output).tied for output, _ in given] == [tied for _, tied in given]
    assert RecurrentSeq2SeqConfig().tied


def test_recurrent_shared_embedding_with_two_vocabularies_raises() -> None:
    with pytest.raises(
        ConfigError, match=r"shared must be false if source and target have different vocabularies, got true"
    ):
        build_encoder_decoder(RecurrentSeq2SeqConfig(shared=True, d=4, d_embedding=4), SIDES)


def copies(n: int, generator: torch.Generator) -> tuple[Source, Tensor, Tensor]:
    """Sequences of three to five of six symbols, to be copied."""
    lengths = torch.randint(3, 6, (n,), generator=generator)
    ids = torch.randint(4, 10, (n, 5), generator=generator)
    ids = ids.masked_fill(torch.arange(5) >= lengths[:, None], 0)
    targets = torch.cat((ids, ids.new_zeros(n, 1)), dim=1).scatter(1, lengths[:, None], 3)
    return Source(ids, lengths), targets, lengths + 1


def test_recurrent_learns_to_copy_to_the_last_symbol() -> None:
    sides = VocabularyInfo(n_source=10, counts=(0, 1, 0, *[5] * 7), begin=2, end=3, forbidden=(0, 1, 2))
    settings = RecurrentSeq2SeqConfig(
        cell="gru", d=32, d_embedding=24, attention="bilinear", input_feeding=False, dropout=0
    )
    model = build_encoder_decoder(settings, sides)
    generator = torch.Generator().manual_seed(1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(200):
        optimizer.param_groups[0]["lr"] = 0.015 * (1 - step / 200)
        optimizer.zero_grad()
        model.loss(*copies(64, generator)).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    source, targets, lengths = copies(100, generator)
    stepper = model.eval().stepper(source)
    found = greedy(stepper, stepper.start(100), 10)
    written = [(*row[0].ids, 3) if row[0].finished else row[0].ids for row in found]
    assert written == [tuple(row[:length].tolist()) for row, length in zip(targets, lengths, strict=True)]


@pytest.mark.parametrize(
    "options",
    [
        {"cell": "gru"},
        {"order": "bahdanau"},
        {"order": "gnmt", "n_layers": 2},
        {"attention_kind": "marginal", "input_feeding": False},
        {"attention_kind": "local_predictive", "cell": "gru"},
    ],
    ids=str,
)
def test_recurrent_mixed_precision_is_close_to_float32(options: dict[str, Any]) -> None:
    model = maker(options)().float()
    source, targets = Source(*padded(SOURCES)), padded(TARGETS)
    wanted = model.loss(source, *targets)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model.loss(source, *targets)
        stepper = model.stepper(source)
        stepper.log_probs(stepper.advance(stepper.start(2), torch.tensor([4, 5])))
    loss.backward()
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(wanted.item(), rel=0.03)


@pytest.mark.parametrize("options", [{"n_heads": 2}, {"order": "gnmt", "n_layers": 2}], ids=str)
def test_recurrent_beam_of_a_batch_equals_single_sources(options: dict[str, Any]) -> None:
    """Sources end at different times, so that rows are regrouped and sources are dropped."""
    model = maker(options)()
    sources = [[4, 5, 6, 7], [1, 4], [7], [5, 5, 6, 4, 1, 7], [8, 8, 4]]
    stepper = model.stepper(Source(*padded(sources)))
    together = beam(stepper, stepper.start(5), beam_size=4, max_length=9, n_best=3, coverage=0.2)
    for ids, found in zip(sources, together, strict=True):
        alone = model.stepper(Source(*padded([ids])))
        (wanted,) = beam(alone, alone.start(1), beam_size=4, max_length=9, n_best=3, coverage=0.2)
        assert [one.ids for one in found] == [one.ids for one in wanted]
        assert [one.score for one in found] == pytest.approx([one.score for one in wanted], abs=1e-9)
        for one in found:
            targets = torch.tensor([[*one.ids, *([3] if one.finished else [])]])
            whole = model.token_log_probs(Source(*padded([ids])), targets, torch.tensor([targets.shape[1]]))
            assert one.log_prob == pytest.approx(whole.sum().item(), abs=1e-9)
