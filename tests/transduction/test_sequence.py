"""Encoder-decoders as transducers: targets, their probabilities, and independence of the batch."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from catena.data.batches import pad
from catena.errors import ConfigError
from catena.seq2seq.base import Source
from catena.seq2seq.config import CopyNetConfig, EncoderDecoderConfig, RecurrentSeq2SeqConfig, TransformerSeq2SeqConfig
from catena.transduction.alphabet import Alphabet
from catena.transduction.config import SequenceTransducerConfig
from catena.transduction.network import StringPairBatch
from catena.transduction.sequence import BEGIN, END, PAD, SequenceModel, build_network

NETWORKS: dict[str, EncoderDecoderConfig] = {
    "recurrent": RecurrentSeq2SeqConfig(d=8, d_embedding=8),
    "memoryless": RecurrentSeq2SeqConfig(d=8, d_embedding=8, attention="none"),
    "transformer": TransformerSeq2SeqConfig(d=8, n_heads=2, n_encoder_layers=1, n_decoder_layers=2, d_ff=16),
    "copy": CopyNetConfig(d=8, d_embedding=8, encoder={"kind": "recurrent", "d": 8}),
}
SOURCES = ["ab", "", "abba", "b?a", "bbbab"]


def model(kind: str, seed: int = 0, target: str = "XYZ") -> SequenceModel:
    torch.manual_seed(seed)
    settings = SequenceTransducerConfig(network=NETWORKS[kind])
    source, wanted = Alphabet("ab"), Alphabet(target)
    network = build_network(settings, source, wanted).double().eval()
    biases = {name: p for name, p in network.named_parameters() if p.shape == (network.v,)}
    bias = next(p for name, p in biases.items() if name.startswith(("output", "generated")))
    with torch.no_grad():
        bias[END] += 3.0  # otherwise one symbol repeats forever
    return SequenceModel(network, source, wanted, settings)


def batch_of(made: SequenceModel, pairs: list[tuple[str, str]]) -> StringPairBatch:
    ids, lengths = pad([made.source_ids(x) for x, _ in pairs])
    targets, ends = pad([made.target_ids(y) for _, y in pairs])
    return StringPairBatch(ids, lengths, targets, ends, int(lengths.sum()), int(ends.sum()))


@pytest.mark.parametrize("kind", NETWORKS)
def test_targets_have_their_probability_and_alignment(kind: str) -> None:
    made = model(kind)
    for x, listed in zip(SOURCES, made.search_all(SOURCES, n_best=3), strict=True):
        if not x:
            assert [found.tokens for found in listed] == [()]
            continue
        assert len({found.tokens for found in listed}) == 3, "all of them come to their end"
        for found in listed:
            if "?" in found.tokens:
                continue  # it is copied
            targets, lengths = pad([made.target_ids(found.tokens)])
            with torch.no_grad():
                log_probs = made.network.token_log_probs(made._source([x]), targets, lengths)
            assert found.log_prob == pytest.approx(float(log_probs.sum()), abs=1e-6)
            assert "".join(s for link in found.alignment for s in link.source) == x
            assert tuple(s for link in found.alignment for s in link.target) == found.tokens
        scores = [found.log_prob or 0.0 for found in listed]
        assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("kind", ["recurrent", "transformer"])
def test_results_do_not_depend_on_batch(kind: str) -> None:
    made = model(kind)
    together = made.search_all(SOURCES, n_best=2)
    for x, listed in zip(SOURCES, together, strict=True):
        (alone,) = made.search_all([x], n_best=2)
        assert [(f.tokens, f.alignment) for f in alone] == [(f.tokens, f.alignment) for f in listed]
        assert [f.log_prob for f in alone] == pytest.approx([f.log_prob for f in listed], abs=1e-9)


@pytest.mark.parametrize("kind", NETWORKS)
def test_endless_target_is_truncated_by_its_source_length(kind: str) -> None:
    made = model(kind)
    for name, bias in made.network.named_parameters():
        if bias.shape == (made.network.v,) and name.startswith(("output", "generated")):
            bias.data[END] = -math.inf
    sources = ["ab", "abbabbaabbababa", "a"]
    for x, listed in zip(sources, made.search_all(sources), strict=True):
        assert not listed[0].finished
        assert [found.tokens for found in listed] == [found.tokens for found in made.search_all([x])[0]]


def test_special_ids_are_never_generated_and_every_symbol_can_be() -> None:
    made = model("recurrent")
    ids, lengths = pad([made.source_ids("ab")])
    stepper = made.network.stepper(Source(ids, lengths))
    possible = stepper.log_probs(stepper.start(1))[0] > -torch.inf
    assert [i for i, can in enumerate(possible.tolist()) if not can] == [PAD, BEGIN]
    assert stepper.v == 3 + len("XYZ")
    assert made.target.spelled(id - 2 for id in made.target_ids("ZXY")[:-1]) == ("Z", "X", "Y")


def test_unknown_symbols_are_copied() -> None:
    made = model("copy", target="XYb")
    assert made.copies
    source = made._source(["a?b!?", "ba"])
    assert source.copies is not None
    v = made.network.v
    b = int(made.target_ids("b")[0])
    assert source.copies.tolist() == [[PAD, v, b, v + 1, v, PAD], [b, PAD, PAD, PAD, PAD, PAD]]
    assert source.n_new == 2
    assert made._spelled("a?b!?", [v + 1, b, v]) == ("!", "b", "?")
    listed = made.search_all(["??", "a"], n_best=5)
    assert any("?" in found.tokens for found in listed[0])
    assert not any("?" in found.tokens for found in listed[1])
    assert all(tuple(s for link in f.alignment for s in link.target) == f.tokens for f in listed[0])
    assert not model("recurrent").copies


def test_all_unknown_symbols_have_same_id() -> None:
    made = model("recurrent")
    assert made.source_ids("a?b").tolist() == made.source_ids("a!b").tolist()
    assert len(set(made.source_ids("ab?").tolist())) == 4


def test_ensemble_averages_probabilities() -> None:
    one, two = model("recurrent", 1), model("recurrent", 2)
    both = one.together_with(two)
    for x in ("ab", "bba"):
        (found,) = both.search_all([x])[0]
        batch = batch_of(one, [(x, "".join(found.tokens))])
        source = Source(batch.ids, batch.lengths)
        with torch.no_grad():
            p = [m.network.token_log_probs(source, batch.targets, batch.target_lengths).exp() for m in (one, two)]
        assert found.log_prob == pytest.approx(float(((p[0] + p[1]) / 2).log().sum()), abs=1e-6)
    (alone,) = one.search_all(["ab"])
    (twice,) = one.together_with(one).search_all(["ab"])
    assert (alone[0].tokens, alone[0].log_prob) == (twice[0].tokens, pytest.approx(twice[0].log_prob))
    with pytest.raises(ConfigError, match="have different symbols"):
        one.together_with(model("recurrent", 1, target="UVW"))


def test_reversing_short_strings_is_learned() -> None:
    torch.manual_seed(3)
    settings = SequenceTransducerConfig(network=RecurrentSeq2SeqConfig(d=32, d_embedding=16, dropout=0.0))
    letters = Alphabet("abcd")
    made = SequenceModel(build_network(settings, letters, letters), letters, letters, settings)
    rng = np.random.default_rng(0)
    words = sorted({"".join(rng.choice(list("abcd"), rng.integers(1, 4))) for _ in range(200)})
    optimizer = torch.optim.Adam(made.network.parameters(), 0.02)
    batch = batch_of(made, [(word, word[::-1]) for word in words])
    for _ in range(45):
        optimizer.zero_grad()
        loss, items = made.loss(batch)
        loss.backward()
        optimizer.step()
    assert items == sum(len(word) + 1 for word in words)
    made.network.eval()
    wrong = [w for w, found in zip(words, made.search_all(words), strict=True) if "".join(found[0].tokens) != w[::-1]]
    assert len(wrong) <= len(words) / 20
