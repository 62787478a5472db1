from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from catena.engine import pool
from catena.engine.decoder import CompiledStepper, compile_decoder
from catena.errors import ConfigError
from catena.seq2seq.base import Source, VocabularyInfo
from catena.seq2seq.config import TransformerSeq2SeqConfig
from catena.seq2seq.transformer import TransformerSeq2Seq, build_transformer
from catena.seq2seq.transformer_stepper import TransformerStepper
from tests.laws.seq2seq_laws import ONE_VOCABULARY, SIDES, EncoderDecoderLaws, Maker

V, N_SOURCE, PAD = SIDES.v, SIDES.n_source, 0
SMALL = {"d": 8, "n_heads": 2, "n_encoder_layers": 2, "n_decoder_layers": 2, "d_ff": 12, "dropout": 0.0}


def made(sides: VocabularyInfo = SIDES, **more: Any) -> TransformerSeq2Seq:
    torch.manual_seed(1)
    model = build_transformer(TransformerSeq2SeqConfig(**{**SMALL, **more}), sides).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():  # norms and biases away from 1 and 0
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def sources(b: int = 5, s: int = 6) -> Source:
    torch.manual_seed(2)
    lengths = torch.tensor([s, 1, 3, s, 2, 4, 5][:b])
    ids = torch.randint(1, N_SOURCE, (b, s)).masked_fill(torch.arange(s) >= lengths[:, None], PAD)
    return Source(ids, lengths)


KINDS = [
    {"norm": norm, "positions": positions}
    for norm, positions in (("pre", "sinusoidal"), ("post", "learned"), ("pre", "rotary"))
]


class TestTransformer(EncoderDecoderLaws):
    @pytest.fixture(params=KINDS, ids=lambda kind: "-".join(kind.values()))
    def make_model(self, request: pytest.FixtureRequest) -> Maker:
        return lambda: made(SIDES, output={"kind": "softmax"}, **request.param)


class TestSharedTables(EncoderDecoderLaws):
    @pytest.fixture
    def make_model(self) -> Maker:
        return lambda: made(ONE_VOCABULARY, output={"kind": "softmax"})


class TestCompiledSteps(EncoderDecoderLaws):
    """In single precision on a CPU, steps are compiled. The initial pool is so small that it must grow."""

    atol = 2e-5
    cpu_only = True

    @pytest.fixture(autouse=True)
    def small_pool(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(pool, "MIN_ENTRIES", 4)

    @pytest.fixture(params=[*KINDS, {"activation": "gelu"}], ids=lambda kind: "-".join(kind.values()))
    def make_model(self, request: pytest.FixtureRequest) -> Maker:
        return lambda: made(SIDES, output={"kind": "softmax"}, **request.param).float()

    def test_steps_are_compiled(self, make_model: Maker) -> None:
        assert isinstance(make_model().stepper(self.source(self.sources)), CompiledStepper)

    def test_unsupported_decoders_are_not_compiled(self, make_model: Maker) -> None:
        source = self.source(self.sources)
        assert compile_decoder(make_model().double(), source) is None
        assert compile_decoder(make_model().train(), source) is None
        assert isinstance(make_model().double().stepper(source), TransformerStepper)


@torch.no_grad()
@pytest.mark.parametrize(("positions", "n_heads", "d"), [("sinusoidal", 2, 64), ("rotary", 1, 96), ("rotary", 3, 48)])
def test_compiled_steps_of_long_rows_equal_reference_steps(positions: str, n_heads: int, d: int) -> None:
    """Beams reorder, end and have common prefixes; states are kept, joined with longer ones, and continue."""
    model = made(SIDES, output={"kind": "softmax"}, positions=positions, n_heads=n_heads, d=d).float()
    source, random = sources(4), torch.Generator().manual_seed(3)
    memory = model.encode(source)
    parts = model.embedded, model.decoder, model.output, model.begin, model.end, memory
    pair: list[Any] = [CompiledStepper(*parts), TransformerStepper(*parts)]
    states = [stepper.select(stepper.start(4), torch.arange(4).repeat_interleave(3)) for stepper in pair]
    kept: list[list[Any]] = []

    def onward(states: list[Any], rows: Tensor) -> list[Any]:
        ids = torch.randint(0, V, (len(rows),), generator=random)
        return [stepper.advance(stepper.select(x, rows), ids) for stepper, x in zip(pair, states, strict=True)]

    def check(states: list[Any]) -> None:
        ours, theirs = (stepper.log_probs(x) for stepper, x in zip(pair, states, strict=True))
        torch.testing.assert_close(ours, theirs, rtol=0.0, atol=2e-5)

    rows = torch.arange(12)
    for t in range(1, 71):
        if t == 40:  # the second beam ends
            rows = torch.cat((rows[:3], rows[6:]))
        elif t % 3 == 0:
            rows = torch.arange(len(rows)).view(-1, 3)[:, :1] + torch.randint(
                0, 3, (len(rows) // 3, 3), generator=random
            )
            rows = rows.flatten()
        states = onward(states, rows)
        rows = torch.arange(len(rows))
        check(states)
        if t in (20, 31, 50):
            kept.append(states)
    for earlier in kept:
        check(onward(earlier, torch.arange(len(earlier[0].hidden))))
    joined = [stepper.join([x[i] for x in (*kept, states)]) for i, stepper in enumerate(pair)]
    for _ in range(35):
        joined = onward(joined, torch.arange(len(joined[0].hidden)).flip(0))
        check(joined)


@torch.no_grad()
@pytest.mark.parametrize("positions", ["sinusoidal", "rotary"])
def test_long_rows_of_several_compiled_steppers_are_joined_with_their_blocks(positions: str) -> None:
    model = made(SIDES, output={"kind": "softmax"}, positions=positions, n_heads=2, d=64).float()
    random = torch.Generator().manual_seed(3)
    steppers: list[Any] = []
    for source in (sources(3), sources(2, 9)):
        parts = model.embedded, model.decoder, model.output, model.begin, model.end, model.encode(source)
        steppers.append([CompiledStepper(*parts), TransformerStepper(*parts)])
    states = [[stepper.start(n) for stepper in pair] for pair, n in zip(steppers, (3, 2), strict=True)]
    for i, (t, n) in enumerate(((45, 3), (70, 2))):
        for _ in range(t):
            ids = torch.randint(0, V, (n,), generator=random)
            states[i] = [stepper.advance(x, ids) for stepper, x in zip(steppers[i], states[i], strict=True)]
    joined = [stepper.join([states[0][i], states[1][i]]) for i, stepper in enumerate(steppers[0])]
    for _ in range(35):
        ids = torch.randint(0, V, (5,), generator=random)
        joined = [stepper.advance(x, ids) for stepper, x in zip(steppers[0], joined, strict=True)]
        ours, theirs = (stepper.log_probs(x) for stepper, x in zip(steppers[0], joined, strict=True))
        torch.testing.assert_close(ours, theirs, rtol=0.0, atol=2e-5)


@torch.no_grad()
def test_compiled_batch_keeps_only_the_entries_in_use() -> None:
    """Each step, rows of 10 ids leave and rows of new steppers join."""
    model, t = made(SIDES, output={"kind": "softmax"}).float(), torch.zeros(4, dtype=torch.int64)
    first = model.stepper(sources(4))
    state = first.start(4)
    for step in range(60):
        t += 1
        rows = ((t < 10) & (torch.arange(4) != step % 7)).nonzero()[:, 0]
        fresh = model.stepper(sources(4 - len(rows))) if len(rows) < 4 else None
        parts = [first.select(state, rows)] + ([] if fresh is None else [fresh.start(4 - len(rows))])
        t = torch.cat((t[rows], torch.zeros(4 - len(rows), dtype=torch.int64)))
        state = first.advance(first.join(parts), torch.full((4,), 5))
        assert state.entries.shape[1] <= 12
        assert state.pool.filled <= 4 * 12 + 4 * 7
        assert len(state.sources.lengths) <= 8
    assert not first.log_probs(state).isnan().any()


def stranger_of(model: TransformerSeq2Seq, norm_first: bool) -> nn.Transformer:
    """torch's Transformer with the model's weights."""
    stranger = nn.Transformer(8, 2, 2, 2, 12, 0.0, batch_first=True, norm_first=norm_first).double()
    if not norm_first:  # torch adds a final norm, which post-norm in the paper does not have
        stranger.encoder.norm = stranger.decoder.norm = None
    pairs: list[tuple[Tensor, Tensor]] = []
    for theirs, ours in zip(stranger.encoder.layers, model.encoder.layers, strict=True):
        pairs += _attention_pairs(theirs.self_attn, ours.attention) + _layer_pairs(theirs, ours)
        pairs += _norm_pairs((theirs.norm1, ours.attention_norm), (theirs.norm2, ours.feed_norm))
    for theirs, ours in zip(stranger.decoder.layers, model.decoder.layers, strict=True):
        pairs += _attention_pairs(theirs.self_attn, ours.attention) + _layer_pairs(theirs, ours)
        pairs += _attention_pairs(theirs.multihead_attn, ours.cross)
        norms = (theirs.norm1, ours.attention_norm), (theirs.norm2, ours.cross_norm), (theirs.norm3, ours.feed_norm)
        pairs += _norm_pairs(*norms)
    if norm_first:
        pairs += _norm_pairs((stranger.encoder.norm, model.encoder.leave), (stranger.decoder.norm, model.decoder.leave))
    with torch.no_grad():
        for theirs, ours in pairs:
            theirs.copy_(ours)
    return stranger


def _attention_pairs(theirs: nn.MultiheadAttention, ours: Any) -> list[tuple[Tensor, Tensor]]:
    maps = (ours.query, ours.keys, ours.values)
    return [
        (theirs.in_proj_weight, torch.cat([m.weight for m in maps])),
        (theirs.in_proj_bias, torch.cat([m.bias for m in maps])),
        (theirs.out_proj.weight, ours.output.weight),
        (theirs.out_proj.bias, ours.output.bias),
    ]


def _layer_pairs(theirs: nn.Module, ours: Any) -> list[tuple[Tensor, Tensor]]:
    maps = (theirs.linear1, ours.feed[0]), (theirs.linear2, ours.feed[3])
    return [pair for a, b in maps for pair in ((a.weight, b.weight), (a.bias, b.bias))]


def _norm_pairs(*norms: tuple[Any, Any]) -> list[tuple[Tensor, Tensor]]:
    return [pair for theirs, ours in norms for pair in ((theirs.weight, ours.weight), (theirs.bias, ours.bias))]


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_transformer_equals_torch_in_values_and_gradients(norm: str) -> None:
    model = made(norm=norm)
    stranger, source = stranger_of(model, norm == "pre"), sources(4)
    before = torch.randint(1, V, (4, 5))
    padded = torch.arange(6) >= source.lengths[:, None]
    root = 8**0.5
    given = model.encoder.positions(model.source_embedding(source.ids) * root)
    written = model.decoder.positions(model.target_embedding(before) * root)
    future = torch.ones(5, 5, dtype=torch.bool).triu(1)
    theirs = stranger(given, written, tgt_mask=future, src_key_padding_mask=padded, memory_key_padding_mask=padded)
    ours = model.hidden(model.encode(source), before)
    torch.testing.assert_close(ours, theirs, rtol=0.0, atol=1e-10)
    weights = torch.randn_like(ours)
    tables = (model.source_embedding.weight, model.target_embedding.weight)
    for found, wanted in zip(
        torch.autograd.grad((ours * weights).sum(), tables, retain_graph=True),
        torch.autograd.grad((theirs * weights).sum(), tables, retain_graph=True),
        strict=True,
    ):
        torch.testing.assert_close(found, wanted, rtol=0.0, atol=1e-10)
    mine = (model.decoder.layers[0].cross.keys.weight, model.encoder.layers[1].feed[0].weight)
    other = (stranger.decoder.layers[0].multihead_attn.in_proj_weight, stranger.encoder.layers[1].linear1.weight)
    cross, feed = torch.autograd.grad((ours * weights).sum(), mine)
    their_cross, their_feed = torch.autograd.grad((theirs * weights).sum(), other)
    torch.testing.assert_close(cross, their_cross[8:16], rtol=0.0, atol=1e-10)
    torch.testing.assert_close(feed, their_feed, rtol=0.0, atol=1e-10)


def test_transformer_attention_weights_equal_torch() -> None:
    model, source = made(), sources(3)
    stranger = stranger_of(model, True)
    targets = torch.randint(4, V, (3, 4))
    found = model.attention(source, targets, torch.tensor([4, 2, 3]))
    assert [weights.shape for weights in found] == [(3, 2, 4, 6)] * 2
    last = stranger.decoder.layers[-1].multihead_attn
    seen: list[Tensor] = []
    model.decoder.layers[-1].cross_norm.register_forward_hook(lambda module, given, result: seen.append(result))
    memory = model.encode(source)
    model.hidden(memory, model.shifted(targets))
    padded = torch.arange(6) >= source.lengths[:, None]
    _, wanted = last(seen[0], memory.states, memory.states, key_padding_mask=padded, average_attn_weights=False)
    wanted = wanted.masked_fill((torch.arange(4) >= torch.tensor([4, 2, 3])[:, None])[:, None, :, None], 0.0)
    torch.testing.assert_close(found[-1], wanted, rtol=0.0, atol=1e-10)
    assert not torch.allclose(found[0], found[1])


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_transformer_self_attention_weights_equal_torch(norm: str) -> None:
    model, source = made(norm=norm), sources(3)
    stranger = stranger_of(model, norm == "pre")
    targets, lengths = torch.randint(4, V, (3, 4)), torch.tensor([4, 2, 3])
    padded, beyond = (torch.arange(n) >= of[:, None] for n, of in ((6, source.lengths), (4, lengths)))
    given, before = source.ids, model.shifted(targets)
    x = model.encoder.positions(model.source_embedding(given) * 8**0.5)
    y = model.decoder.positions(model.target_embedding(before) * 8**0.5)
    future = torch.ones(4, 4, dtype=torch.bool).triu(1)
    memory = model.encode(source).states
    on_source, on_target = model.source_attention(source), model.target_attention(source, targets, lengths)
    assert len(on_source) == len(on_target) == 2
    for i in range(2):
        for found, layer, z, rows, limits in (
            (on_source[i], stranger.encoder.layers[i], x, padded, {"key_padding_mask": padded}),
            (on_target[i], stranger.decoder.layers[i], y, beyond, {"attn_mask": future}),
        ):
            seen = layer.norm1(z) if norm == "pre" else z
            _, wanted = layer.self_attn(seen, seen, seen, average_attn_weights=False, **limits)
            torch.testing.assert_close(found, wanted.masked_fill(rows[:, None, :, None], 0.0), rtol=0.0, atol=1e-10)
        x = stranger.encoder.layers[i](x, src_key_padding_mask=padded)
        y = stranger.decoder.layers[i](y, memory, tgt_mask=future, memory_key_padding_mask=padded)


def test_transformer_stepper_attention_is_of_the_last_layer() -> None:
    model, source = made(), sources(3)
    targets, lengths = torch.randint(4, V, (3, 4)), torch.tensor([4, 4, 4])
    wanted = model.attention(source, targets, lengths)[-1].mean(dim=1)
    stepper: Any = model.stepper(source)
    state = stepper.start(3)
    for t in range(4):
        torch.testing.assert_close(stepper.attention(state), wanted[:, t], rtol=0.0, atol=1e-10)
        state = stepper.advance(state, targets[:, t])
    twice = stepper.select(state, torch.tensor([0, 0, 2, 2]))
    torch.testing.assert_close(stepper.attention(twice), stepper.attention(state)[[0, 0, 2, 2]])
    assert torch.equal(stepper.source_mask(twice), torch.arange(6) < source.lengths[[0, 0, 2, 2], None])


def test_transformer_beam_does_not_copy_its_source() -> None:
    stepper: Any = made().stepper(sources(3))
    state = stepper.start(3)
    beams = stepper.select(state, torch.tensor([0, 0, 1, 1, 2, 2]))
    turned = stepper.select(beams, torch.tensor([1, 1, 3, 2, 4, 4]))
    assert turned.sources is beams.sources is state.sources
    fewer = stepper.select(turned, torch.tensor([0, 1, 4, 5]))
    assert (len(fewer.sources), fewer.each) == (2, 2)


def test_transformer_tables_are_tied_by_config() -> None:
    joint, apart = made(ONE_VOCABULARY), made()
    assert joint.source_embedding is joint.target_embedding
    assert joint.output.scores.weight is joint.target_embedding.weight
    assert apart.source_embedding is not apart.target_embedding
    assert apart.output.scores.weight is apart.target_embedding.weight
    own = made(ONE_VOCABULARY, share="embeddings")
    assert own.source_embedding is own.target_embedding
    assert own.output.scores.weight is not own.target_embedding.weight
    none = made(ONE_VOCABULARY, share="none")
    assert none.source_embedding is not none.target_embedding
    with pytest.raises(ConfigError, match="different vocabularies, got 'all'"):
        made(share="all")


def test_transformer_embeddings_have_variance_one() -> None:
    model = build_transformer(TransformerSeq2SeqConfig(), VocabularyInfo(2000, [1] * 2000, 2, 3, (PAD, 2), True))
    entering = model.embedded(torch.arange(1, 2000)[None])
    assert 0.95 < entering.var().item() < 1.05


def test_transformer_depth_scaled_init() -> None:
    plain, scaled = (
        (torch.manual_seed(1), build_transformer(TransformerSeq2SeqConfig(**SMALL, init=init), SIDES))[1]
        for init in ("xavier", "depth_scaled")
    )
    for side in ("encoder", "decoder"):
        assert len(getattr(plain, side).layers) > 1
        for i, (layer, other) in enumerate(zip(getattr(plain, side).layers, getattr(scaled, side).layers, strict=True)):
            for (name, weight), small in zip(layer.named_parameters(), other.parameters(), strict=True):
                factor = math.sqrt(i + 1) if weight.dim() == 2 else 1.0
                assert torch.allclose(weight, small * factor), f"{side} {i} {name}"


def test_transformer_dropout_positions_only_in_training() -> None:
    source, targets, lengths = sources(3), torch.randint(4, V, (3, 4)), torch.tensor([4, 2, 3])
    for name in ("dropout", "attention_dropout", "ff_dropout"):
        model = made(**{name: 0.5})
        assert model.loss(source, targets, lengths) == model.loss(source, targets, lengths)
        model.train()
        assert model.loss(source, targets, lengths) != model.loss(source, targets, lengths)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"d": 10, "n_heads": 4}, "d must be divisible by n_heads = 4, got 10. Use 8 or 12"),
        ({"d": 6, "n_heads": 2, "positions": "rotary"}, "got 6 / 2 = 3. Use d = 8"),
        ({"output": {"kind": "hierarchical"}}, "share must be 'embeddings' or 'none'"),
    ],
)
def test_transformer_config_invalid_values_raise(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TransformerSeq2SeqConfig(**wrong)
