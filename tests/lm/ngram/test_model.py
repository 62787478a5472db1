"""Models as steppers, and their scores of texts."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from catena.data.config import VocabularyConfig
from catena.data.vocabulary import Vocabulary
from catena.errors import DataError, FormatError
from catena.lm.base import SPECIALS
from catena.lm.ngram.model import NgramModel
from tests.laws.stepper_laws import StepperLaws
from tests.lm.ngram.texts import letters, trained
from tests.oracle import ngram as oracle

TEXT = [
    "the dog ran away",
    "the dog ran home",
    "a dog ran",
    "the cat ran away from the dog",
    "",
    "the <unk> sat",
]


class TestModifiedKneserNey(StepperLaws):
    cpu_only = True

    atol = 1e-5

    @pytest.fixture
    def make(self):
        return lambda: NgramModel.train(TEXT, order=3)


class TestFlat(StepperLaws):
    cpu_only = True

    atol = 1e-5

    @pytest.fixture
    def make(self):
        return lambda: NgramModel.train(TEXT, order=3, estimator="add-k")


class TestMaximumLikelihood(StepperLaws):
    cpu_only = True

    atol = 1e-5

    @pytest.fixture
    def make(self):
        return lambda: NgramModel.train(TEXT, order=2, estimator="maximum-likelihood")


@pytest.mark.parametrize("estimator", ["modified-kneser-ney", "good-turing", "katz"])
@given(data=st.data())
@settings(max_examples=20)
def test_scores_equal_the_oracle(estimator, data):
    words = ["dog", "cat", "é", "犬", "🐕\u200d🦺", "שלום"]
    line = st.lists(st.sampled_from([*words, "unknown"]), max_size=7)
    text = data.draw(st.lists(st.lists(st.sampled_from(words), max_size=7), max_size=60))
    asked = data.draw(st.lists(line, max_size=40))
    known = Vocabulary(words, specials=SPECIALS)
    order = data.draw(st.integers(1, 4))
    model = NgramModel.train([" ".join(s) for s in text], order, estimator, vocabulary=known)
    prob = oracle.ESTIMATORS[estimator](text, order, ["unknown", *words, oracle.END])
    wanted = []
    for sentence in asked:
        read, total = [oracle.BEGIN], 0.0
        for word in [*sentence, oracle.END]:
            total += math.log(prob(tuple(read), word))
            read.append(word)
        wanted.append(total)
    assert model.score([" ".join(s) for s in asked]) == pytest.approx(wanted, abs=1e-4)


def test_scores_tokens_and_steps_agree():
    model = NgramModel.train(TEXT, order=3)
    sentences = ["the dog sat", "", "zebra zebra", "a a a a a a"] * 20
    scores = model.score(sentences)
    for sentence, score in zip(sentences, scores, strict=True):
        tokens = model.token_scores(sentence)
        assert sum(value for _, value in tokens) == pytest.approx(score, abs=1e-5)
        ids = torch.tensor([[*model.vocabulary.ids(sentence.split()), model.end]])
        found = model.token_log_probs(ids, torch.tensor([ids.shape[1]]))
        assert found[0].tolist() == pytest.approx([value for _, value in tokens], abs=1e-6)
        assert [token for token, _ in tokens] == model.vocabulary.tokens(ids[0].tolist())
    assert model.score([]) == []


@pytest.mark.parametrize("way", ["trained", "saved", "arpa", "pruned"])
@pytest.mark.parametrize("estimator", ["modified-kneser-ney", "stupid-backoff"])
@pytest.mark.parametrize("order", [1, 2, 3, 5])
def test_score_of_one_sentence_equals_its_score_among_others(tmp_path, way, estimator, order):
    rng = np.random.default_rng(order)
    words = np.array(["a", "b", "é", "犬", "<s>", "elephant", "elephants"])
    model = NgramModel.train(
        [" ".join(words[rng.integers(0, 6, n)]) for n in rng.integers(0, 12, 200)],
        order,
        estimator,
        prune=(0, 1) if way == "pruned" and order > 1 else (),
    )
    if way == "saved":
        model.save(tmp_path / "a.ngram")
        model = NgramModel.load(tmp_path / "a.ngram")
    elif way == "arpa" and estimator != "stupid-backoff":
        model.save_arpa(tmp_path / "a.arpa")
        model = NgramModel.load(tmp_path / "a.arpa")
    sentences = [" ".join(words[rng.integers(0, 7, n)]) for n in range(60)]
    sentences += ["", " ", "\n", " a\tb\u3000é \r\n犬 ", "a \ud800 b", "<unk> </s>", "a" * 100]
    for sentence, wanted in zip(sentences, model.score(sentences), strict=True):
        assert model.score([sentence]) == [wanted]
        assert model.score((sentence,)) == [wanted]


@pytest.mark.parametrize("way", ["trained", "saved", "arpa", "pruned"])
def test_step_finds_a_word_among_many_after_a_history(tmp_path, way):
    """A step searches one word among those after a history; the whole distribution goes through all of them."""
    draws = np.random.default_rng(7)
    sentences = [" ".join(map(str, draws.zipf(1.3, 12) % 90)) for _ in range(300)]
    model = NgramModel.train(sentences, order=3, estimator="witten-bell")
    if way == "pruned":
        model = model.pruned(1e-5)
    if way in ("saved", "arpa"):
        (model.save if way == "saved" else model.save_arpa)(tmp_path / "model")
        model = NgramModel.load(tmp_path / "model")
    ids = torch.from_numpy(draws.integers(4, model.v, (40, 8)))
    ids[:20] = torch.tensor([model.vocabulary.ids(s.split()[:8]) for s in sentences[:20]])
    found = model.token_log_probs(ids, torch.full((40,), 8))
    state = model.start(40)
    for t in range(8):
        torch.testing.assert_close(found[:, t], model.log_probs(state).gather(1, ids[:, t, None])[:, 0])
        state = model.advance(state, ids[:, t])


def test_evaluate_counts_tokens_ends_and_unknowns():
    model = NgramModel.train(TEXT, order=2)
    scored = model.evaluate(["the dog", "", "zebra <unk> ran"])
    assert (scored.tokens, scored.sentences, scored.unknown) == (8, 3, 2)
    assert scored.log_prob == pytest.approx(sum(model.score(["the dog", "", "zebra <unk> ran"])), abs=1e-5)
    assert scored.perplexity == pytest.approx(math.exp(-scored.log_prob / 8))
    assert model.evaluate(["the dog", "", "\t"], skip_blank=True).sentences == 1
    with pytest.raises(DataError, match="a text without tokens is undefined"):
        model.perplexity([])


def test_score_of_invalid_sentences_raises():
    model = NgramModel.train(TEXT, order=2)
    assert repr(model) == f"NgramModel(order=2, v={model.v}, estimator='modified-kneser-ney')"
    with pytest.raises(DataError, match=r"got one string. Pass \['the dog'\]"):
        model.score("the dog")
    with pytest.raises(DataError, match=r"got \['a', 'b'\], a list, as sentence 2. Join its tokens by blanks"):
        NgramModel.train(iter(["a b", ["a", "b"]]))
    with pytest.raises(DataError, match="got b'a b', a bytes"):
        model.evaluate(iter([b"a b"]))
    with pytest.raises(
        FormatError, match=r"File not found: 'the dog ran'. Check the path, or pass sentences as a list"
    ):
        model.perplexity("the dog ran")
    with pytest.raises(FormatError, match=r"File not found: 'the the .* …'\. Check"):
        NgramModel.train("the " * 10_000)


def test_ambiguous_file_names_and_sentences_raise(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = NgramModel.train(TEXT, order=2)
    for name in ("one", "two"):
        Path(name).write_text("the dog ran\n", encoding="utf-8")
    for asked in (["one", "two"], [Path("one"), "the dog"]):
        with pytest.raises(DataError, match=r"must be sentences or files, got .* Pass files as Path"):
            model.evaluate(iter(asked))
    assert model.evaluate([Path("one"), Path("two")]).tokens == 8
    assert model.evaluate(["one "]).tokens == 2
    assert model.evaluate(["one", "the dog"]).tokens == 5


def test_impossible_texts_have_infinite_perplexity():
    model = NgramModel.train(TEXT, order=2, estimator="maximum-likelihood")
    assert model.perplexity(["home home"]) == math.inf


def test_next_words_are_the_most_probable_ones():
    model = NgramModel.train(TEXT, order=3)
    best = model.next_words("the dog", k=3)
    assert best[0][0] == "ran"
    assert [value for _, value in best] == sorted((value for _, value in best), reverse=True)
    everything = model.next_words("the dog", k=1000)
    assert math.fsum(math.exp(value) for _, value in everything) == pytest.approx(1.0, abs=1e-5)
    assert {"<pad>", "<s>"}.isdisjoint(word for word, _ in everything)
    assert "</s>" in {word for word, _ in everything}


def test_train_with_limited_vocabulary_counts_unknown_words():
    model = NgramModel.train(TEXT, order=2)
    assert model.vocabulary.counts[1] == 1
    assert dict(model.next_words("the", 100))["<unk>"] > dict(model.next_words("a", 100))["<unk>"]
    limited = NgramModel.train(TEXT, order=2, vocabulary=VocabularyConfig(max_size=2))
    assert limited.vocabulary.symbols[4:] == ["the", "dog"]
    assert limited.evaluate(["the cat sat"]).unknown == 2


def test_special_tokens_in_a_text_are_unknown_words():
    model = NgramModel.train(["a <s> b </s> <pad>"], order=2)
    assert [token for token, _ in model.token_scores("<s> a </s>")] == ["<unk>", "a", "<unk>", "</s>"]


@pytest.mark.parametrize("text", [[], [""], ["word"], ["🐕"], ["\u202eשלום עולם"], ["<unk> <unk>"]])
@pytest.mark.parametrize("order", [1, 2, 6])
def test_train_on_tiny_texts(text, order):
    model = NgramModel.train(text, order=order)
    assert math.isfinite(model.perplexity(["some other text", "word"]))
    assert model.log_probs(model.start(2)).exp().sum(dim=1).tolist() == pytest.approx([1.0, 1.0], abs=1e-5)


def test_long_histories_with_any_order():
    words = [str(i) for i in range(30)]
    model = NgramModel.train([" ".join(words)] * 2, order=20)
    assert model.order == 20
    found = dict(model.token_scores(" ".join(words)))
    assert min(found.values()) > math.log(0.5)


def test_ids_out_of_range_raise():
    model = trained([[4, 5]], 2)
    for ids in ([7], [-1]):
        with pytest.raises(DataError, match=r"ids must be from 0 to 6"):
            model.advance(model.start(1), torch.tensor(ids))
    with pytest.raises(DataError, match="vocabulary must have 7 words, as many as the model, got 8"):
        NgramModel(model.packed, letters(4))


@pytest.mark.parametrize(
    ("ids", "problem"),
    [
        ([4, 7], "ids must be from 0 to 6, got 2 to 7"),
        ([-1], "ids must be from 0 to 6, got -1 to 5"),
        ([4, 0], "got '<pad>' \\(id 0\\) 1 times"),
        ([2, 4], "got '<s>' \\(id 2\\) 1 times"),
    ],
)
def test_train_ids_with_invalid_ids_raises(ids, problem):
    with pytest.raises(DataError, match=problem):
        trained([[4, 5], ids], 2)
    assert trained([np.array([4, 5]), np.array([], np.int64)], 2).score(["a b"]) == trained([[4, 5], []], 2).score(
        ["a b"]
    )


def test_parallel_sentences_do_not_affect_each_other():
    """More sentences than lanes, with very different lengths, some of them empty."""
    rng = np.random.default_rng(7)
    model = trained([[int(w) for w in rng.integers(4, 7, n)] for n in rng.integers(0, 9, 50)], 4)
    rows = [[int(w) for w in rng.integers(4, 7, n)] for n in rng.integers(0, 40, 200)]
    together = [torch.tensor(row, dtype=torch.int64) for row in rows]
    padded = torch.nn.utils.rnn.pad_sequence(together, batch_first=True)
    found = model.token_log_probs(padded, torch.tensor([len(row) for row in rows]))
    assert len(rows) > 0
    for i, row in enumerate(rows):
        state = model.start(1)
        for t, word in enumerate(row):
            assert found[i, t].item() == pytest.approx(model.log_probs(state)[0, word].item(), abs=1e-6)
            state = model.advance(state, torch.tensor([word]))
        assert (found[i, len(row) :] == 0).all()


@pytest.mark.parametrize("estimator", ["modified-kneser-ney", "add-k"])
def test_packed_models_check_ids_and_states_before_a_kernel_runs(estimator):
    packed = NgramModel.train(TEXT, order=3, estimator=estimator).packed
    zeros, n, v = np.zeros(1, np.int64), packed.n_states, packed.v
    ids, ends = np.zeros(3, np.int32), np.array([1, 3])
    for call, what in (
        (lambda: packed.step(zeros, np.array([v])), f"ids must be from 0 to {v - 1}, got {v}"),
        (lambda: packed.step(zeros, np.array([-1])), "ids .* got -1"),
        (lambda: packed.step(np.array([n]), zeros), f"states must be from 0 to {n - 1}, got {n}"),
        (lambda: packed.step(zeros, np.zeros(2, np.int64)), "words must be one for each of 1 states, got 2"),
        (lambda: packed.spread(np.array([-1])), "states .* got -1"),
        (lambda: packed.text_scorer(np.zeros(8, np.uint64), np.full(8, v, np.int32), 0, 1, 2), f"ids .* got {v}"),
        (lambda: packed.text_scorer(np.zeros(8, np.uint64), np.zeros(8, np.int32), 0, 1, v), f"ids .* got {v}"),
        (lambda: packed.walk(np.array([0, v, 0], np.int32), ends, 0), f"ids .* got {v}"),
        (lambda: packed.walk(ids, ends, n), f"begin .* got {n}"),
        (lambda: packed.walk(ids, np.array([1, 4]), 0), r"ends must increase from 0 to 3, .* got \[1, 4\]"),
        (lambda: packed.walk(ids, np.array([2, 1]), 0), r"ends .* got \[2, 1\]"),
        (lambda: packed.walk(ids, np.array([-1, 3]), 0), r"ends .* got \[-1, 3\]"),
    ):
        with pytest.raises(DataError, match=what):
            call()


def test_step_from_states_of_another_model_raises():
    model = NgramModel.train(TEXT, order=2)
    for query in (model.log_probs, lambda state: model.advance(state, torch.zeros(1, dtype=torch.int64))):
        with pytest.raises(DataError, match="states must be from 0"):
            query(torch.tensor([10**6]))
