"""Candidates: word alignment and searches restricted to candidate lists."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from catena.data.batches import pad
from catena.data.vocabulary import UNK
from catena.errors import CheckpointError, ConfigError
from catena.numerics import NEG_INF
from catena.outputs.softmax import Softmax
from catena.search.table_stepper import TableStepper
from catena.seq2seq.build import build_encoder_decoder
from catena.tasks.translate.candidates import (
    CandidateOutput,
    Candidates,
    CandidateStepper,
    learn_candidates,
    load_candidates,
    restrict_output,
    save_candidates,
    word_table,
)
from catena.tasks.translate.config import TranslateOptions
from catena.tasks.translate.search import EnsembleModel
from catena.tasks.translate.task import TranslateTask
from tests.tasks.translate.toy import TRANSFORMER, prepare, toy_config, write_files


def test_word_table_finds_cooccurring_words(tmp_path: Path) -> None:
    data = prepare(toy_config(write_files(tmp_path)))
    table = learn_candidates(data.train, 2)
    source, target = data.encoding.source.vocabulary, data.encoding.target.vocabulary
    for word, wanted in (
        ("dog", "Hund"),
        ("cat", "Katze"),
        ("today", "heute"),
        ("hears", "hört"),
        ("garden", "Garten"),
    ):
        found = target.tokens([i for i in table[source.ids([word])[0]].tolist() if i >= 0])
        assert wanted in found, word
    assert table.shape == (len(source), 2)
    save_candidates(table, tmp_path)
    assert (load_candidates(tmp_path, len(source)) == table).all()
    with pytest.raises(CheckpointError, match="must have 3 rows"):
        load_candidates(tmp_path, 3)
    (tmp_path / "candidates.npy").write_bytes(b"x")
    with pytest.raises(CheckpointError, match="cannot be read"):
        load_candidates(tmp_path, 3)


def test_word_table_equals_loops() -> None:
    pairs = [([0, 1], [0, 1]), ([0, 2], [0, 2]), ([1], [1])]
    t = {(f, e): 1.0 for x, y in pairs for f in x for e in y}
    for _ in range(5):
        counts = dict.fromkeys(t, 0.0)
        for x, y in pairs:
            for e in y:
                total = sum(t[f, e] for f in x)
                for f in x:
                    counts[f, e] += t[f, e] / total
        sums = {f: sum(n for (g, _), n in counts.items() if g == f) for f, _ in t}
        t = {(f, e): n / sums[f] for (f, e), n in counts.items()}
    table = word_table(((np.array(x), np.array(y)) for x, y in pairs), 3, 3, 3)
    for f in range(3):
        wanted = sorted((e for g, e in t if g == f), key=lambda e: (-t[f, e], e))
        assert [e for e in table[f].tolist() if e >= 0] == wanted


def test_candidate_output_gives_candidates_all_probability() -> None:
    torch.manual_seed(0)
    layer = Softmax(4, 7)
    ids = torch.tensor([1, 3, 6])
    hidden = torch.randn(5, 4)
    with torch.no_grad():
        few, all_ = CandidateOutput(layer, ids).log_probs(hidden), layer.log_probs(hidden)
    assert torch.allclose(few.exp().sum(dim=1), torch.ones(5))
    assert torch.allclose(few[:, ids], torch.log_softmax(all_[:, ids], dim=1), atol=1e-6)
    assert (few.exp()[:, [0, 2, 4, 5]] == 0).all()


def test_candidate_stepper_restricts_each_row() -> None:
    stepper = TableStepper.of({(): [0.4, 0.3, 0.2, 0.1]}, end=3)
    found = Candidates(np.array([3]), np.array([[0, -1], [1, 2]]), 4)
    among = CandidateStepper(stepper, found.allowed([np.array([0]), np.array([1]), np.array([0, 1])]))
    state = among.select(among.start(3), torch.tensor([2, 0, 0, 1]))
    state = among.join([among.advance(state, torch.zeros(4, dtype=torch.int64)), among.start(3)])
    p = among.log_probs(state).exp()
    one, two, both = [0.8, 0, 0, 0.2], [0, 0.5, 1 / 3, 1 / 6], [0.4, 0.3, 0.2, 0.1]
    assert torch.allclose(p, torch.tensor([both, one, one, two, one, two, both], dtype=p.dtype))


def test_join_states_of_other_candidates_raises() -> None:
    stepper = TableStepper.of({(): [0.4, 0.3, 0.2, 0.1]}, end=3)
    found = Candidates(np.array([3]), np.array([[0, -1], [1, 2]]), 4)
    first, second = (CandidateStepper(stepper, found.allowed([np.array([i])])) for i in (0, 1))
    with pytest.raises(
        ConfigError, match=r"must all come from this CandidateStepper, got states of other steppers at indices \[1\]\."
    ):
        first.join([first.start(1), second.start(1)])


KINDS: dict[str, dict[str, Any]] = {
    "recurrent": {"kind": "recurrent", "cell": "gru", "d": 6, "d_embedding": 6},
    "marginal": {"kind": "recurrent", "d": 6, "d_embedding": 6, "attention_kind": "marginal", "input_feeding": False},
    "transformer": TRANSFORMER,
    "convolutional": {
        "kind": "convolutional", "d": 6, "d_embedding": 6, "n_encoder_layers": 1, "n_decoder_layers": 1,
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], TranslateTask]:
    """An ensemble of two untrained models, in which each source has its own candidates."""
    files = write_files(tmp_path_factory.mktemp("data"))
    train = prepare(toy_config(files)).train
    encoding = train.pairs.encoding

    def make(kind: str) -> TranslateTask:
        config, networks = toy_config(files, KINDS[kind]), []
        for seed in (0, 1):
            torch.manual_seed(seed)
            sides = encoding.sides(train.pairs.target_counts(train.rows))
            networks.append(build_encoder_decoder(config.model, sides).eval())
            for weights in networks[-1].parameters():
                weights.data.normal_(std=0.3)
        n, v = len(encoding.source.vocabulary), len(encoding.target.vocabulary)
        table = np.random.default_rng(0).integers(4, v, (n, 2))
        candidates = Candidates(np.array([UNK, encoding.end]), table, v)
        return TranslateTask(config, encoding, networks[0], candidates, [EnsembleModel(networks[1], encoding)])

    return make


@pytest.mark.parametrize("kind", KINDS)
def test_ensemble_renormalizes_each_model_over_candidates(kind: str, made: Callable[[str], TranslateTask]) -> None:
    both = made(kind)
    texts = ["The dog sees a man today.", "A bird", "the cat hears the child in the garden."]
    options = TranslateOptions(n_best=2, beam_size=3, max_length=5, scores=True)
    for text, together in zip(texts, both.predict(texts, options), strict=True):
        alone = both.predict([text], options)[0]
        assert [one.translation for one in together.n_best] == [one.translation for one in alone.n_best]
        assert both.candidates is not None
        coded = both.models[0].code(text)
        gone = ~both.candidates.allowed([coded.ids])[0]
        for one in together.n_best:
            ids = [*both.encoding.target.vocabulary.ids(one.tokens), both.encoding.end][: len(one.log_probs or ())]
            assert one.log_probs == pytest.approx(by_hand(both, text, gone, ids), abs=1e-4)


def by_hand(both: TranslateTask, text: str, gone: Tensor, ids: list[int]) -> list[float]:
    """Each model over all words: remove words that are not candidates, average, then remove the unknown word."""
    found = []
    steppers = [model.network.stepper(model.batch([model.code(text)])) for model in both.models]
    states = [stepper.start(1) for stepper in steppers]
    for id in ids:
        p = [stepper.log_probs(state)[0].double().exp() for stepper, state in zip(steppers, states, strict=True)]
        p = [each.masked_fill(gone, 0.0) for each in p]
        mean = sum((each / each.sum() for each in p), torch.zeros_like(p[0])) / len(p)
        found.append(math.log(mean[id] / (1 - mean[UNK])))
        states = [stepper.advance(state, torch.tensor([id])) for stepper, state in zip(steppers, states, strict=True)]
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_restrict_output_computes_only_candidates(kind: str, made: Callable[[str], TranslateTask]) -> None:
    model = made(kind).models[0]
    ids = torch.tensor([1, 3, 5, 8])
    with restrict_output(model.network, ids):
        stepper = model.network.stepper(model.batch([model.code("The dog")]))
    # Summing over positions needs the full vocabulary: a subset would be normalized differently at each.
    possible = (stepper.log_probs(stepper.start(1))[0] > NEG_INF).nonzero()[:, 0].tolist()
    assert possible == ids.tolist() if kind != "marginal" else len(possible) > len(ids)
    after = model.network.stepper(model.batch([model.code("The dog")]))
    assert (after.log_probs(after.start(1))[0] > NEG_INF).sum() > len(ids)


@pytest.mark.parametrize("kind", KINDS)
def test_exhaustive_beam_finds_the_best_texts(kind: str, made: Callable[[str], TranslateTask], tmp_path: Path) -> None:
    """All texts of up to two words, scored by each model and averaged by hand, with and without constraints."""
    both = made(kind)
    writing = both.config.writing.model_copy(update={"unknown": "keep"})
    free = TranslateTask(
        both.config.model_copy(update={"writing": writing}), both.encoding, both.translator, None, both.others
    )
    vocabulary, end = both.encoding.target.vocabulary, both.encoding.end
    words = [id for id in range(len(vocabulary)) if id not in (0, both.encoding.begin, end)]
    listed = [(), *((a,) for a in words), *((a, b) for a in words for b in words)]
    ids, lengths = pad([np.array([*one, end]) for one in listed])
    (tmp_path / "constraints").write_text("sieht\t-sieht sieht\n", encoding="utf-8")
    sees = vocabulary.ids(["sieht"])[0]
    for text in ("The dog sees a man today.", "A bird"):
        each = []
        for model in both.models:
            source = model.batch([model.code(text)] * len(listed))
            each.append(model.network.token_log_probs(source, ids, lengths).detach().double().exp())
        log_probs = ((each[0] + each[1]) / 2).log().sum(dim=1).tolist()
        for constraint in (None, tmp_path / "constraints"):
            wanted = [
                (log_prob / ((5 + len(one) + 1) / 6) ** 0.8, one)
                for one, log_prob in zip(listed, log_probs, strict=True)
                if constraint is None or (sees in one and one != (sees, sees))
            ]
            wanted.sort(key=lambda pair: -pair[0])
            options = TranslateOptions(n_best=9, beam_size=700, max_length=3, length_penalty=0.8, constraint=constraint)
            found = free.predict([text], options)[0].n_best
            assert [one.score for one in found] == pytest.approx([score for score, _ in wanted[:9]], abs=1e-4)
            assert tuple(vocabulary.ids(found[0].tokens)) == wanted[0][1]
