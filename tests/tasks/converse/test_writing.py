"""Generative models: turns as ids, log-probabilities against the stepper, training and copied words."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from catena.data.config import WordTokenizerConfig
from catena.data.dialogue import Exchange
from catena.data.examples import SourceLocation
from catena.data.tokenize import build_tokenizer
from catena.data.vocabulary import UNK, Vocabulary
from catena.errors import DataError
from catena.randomness import Randomness
from catena.search.config import BeamConfig, GreedyConfig, SampleConfig
from catena.tasks.application import PredictOptions
from catena.tasks.converse.application import ConverseApplication
from catena.tasks.converse.dataset import prepare
from catena.tasks.converse.generative import WritingPredictor, WritingTask, new_generative
from catena.tasks.converse.predictor import Reply
from catena.tasks.converse.questions import RankingExample
from catena.tasks.converse.writing import MARKS, DialogueLM, WritingBatch, WritingEncoding
from catena.training.report import SilentReporter
from tests.tasks.converse.helpers import config, write_pairs

COPY: dict[str, Any] = {"network": {"kind": "copy", "d": 16, "d_embedding": 12, "encoder": {"d": 8}}, "ngram_order": 1}


@pytest.fixture
def encoding() -> WritingEncoding:
    vocabulary = Vocabulary(["hi", "there", "you"], specials=MARKS)
    return WritingEncoding(build_tokenizer(WordTokenizerConfig(lowercase=True)), vocabulary, 6)


def exchange(*turns: str) -> Exchange:
    return Exchange(turns, (), SourceLocation("x", 1))


def test_context_has_speaker_and_end_symbols(encoding: WritingEncoding) -> None:
    context = encoding.context(exchange("hi", "you there"))
    names = encoding.vocabulary.tokens(context.ids.tolist())
    assert names == ["<me>", "hi", "</s>", "<you>", "you", "there", "</s>", "<me>"][-7:], (
        "the last six, and who is next"
    )
    assert encoding.vocabulary.tokens(encoding.response("Hi you").tolist()) == ["hi", "you", "</s>"]
    assert encoding.response("hi " * 9).tolist()[-1] == encoding.end
    assert len(encoding.response("hi " * 9)) == 7


def test_unknown_words_have_extra_ids_for_copy_models(encoding: WritingEncoding) -> None:
    context = encoding.context(exchange("bob hi ann bob"))
    size = len(encoding.vocabulary)
    assert context.new == ("bob", "ann")
    assert context.copies.tolist() == [encoding.you, size, encoding.vocabulary.ids(["hi"])[0], size + 1, size,
                                       encoding.end, encoding.me]  # fmt: skip
    assert encoding.response("ann eve").tolist() == [UNK, UNK, encoding.end]
    ids = encoding.response("ann eve", context.new)
    assert ids.tolist() == [size + 1, UNK, encoding.end]
    assert encoding.text(ids[:1].tolist(), context.new) == "ann"


def made(tmp_path: Path, kind: str, **model: Any) -> WritingTask:
    own = config(write_pairs(tmp_path / "x.tsv", 3), kind, model=model)
    torch.manual_seed(2)
    task = new_generative(own, prepare(own), torch.device("cpu"), Randomness(1))
    task.model.eval()
    return task


def test_scores_do_not_depend_on_batch_or_training_mode(tmp_path: Path) -> None:
    scribe = made(tmp_path, "seq2seq").scribe
    texts = ["cat", "a cat that sits", "", "dog and cat", "dog", "sits"]
    pairs = [(exchange(" ".join(["hello"] * (1 + i % 3))), text) for i, text in enumerate(texts)]
    scribe.author.network.train()
    for answers in (scribe.log_probs, lambda pairs: scribe.ngram_log_probs([text for _, text in pairs])):
        scribe.at_once = 64
        together = answers(pairs)
        scribe.at_once = 2
        for one, found, again in zip(pairs, answers(pairs), together, strict=True):
            assert found.dtype == np.float64
            assert found.tolist() == pytest.approx(again.tolist(), abs=1e-5)
            assert found.tolist() == pytest.approx(answers([one])[0].tolist(), abs=1e-5)
    assert scribe.author.network.training, "the training mode is restored"


@pytest.mark.parametrize(("kind", "model"), [("generative", {}), ("seq2seq", {}), ("seq2seq", COPY)])
def test_log_probs_equal_those_of_the_stepper(kind: str, model: dict[str, Any], tmp_path: Path) -> None:
    task = made(tmp_path, kind, **model)
    pairs = [(e, text) for e in task.data.dev[:2] for text in e.responses] + [(exchange("zork"), "a zork cat")]
    found = task.scribe.log_probs(pairs)
    for (one, text), own in zip(pairs, found, strict=True):
        context = task.scribe.encoding.context(one)
        stepper, state = task.scribe.author.begun(WritingBatch.asked([context], torch.device("cpu")))
        for id, log_prob in zip(task.scribe.response(text, context).tolist(), own.tolist(), strict=True):
            assert float(stepper.log_probs(state)[0, id]) == pytest.approx(log_prob, abs=1e-4)
            state = stepper.advance(state, torch.tensor([id]))


@pytest.mark.parametrize("learn", ["dialogue", "response"])
def test_loss_counts_words_and_ends_but_not_speakers(learn: str, tmp_path: Path) -> None:
    task = made(tmp_path, "generative", learn=learn)
    author, encoding = task.scribe.author, task.scribe.encoding
    assert isinstance(author, DialogueLM)
    batch = task.batch(np.arange(3))
    total, n = author.loss(batch)
    nats: list[float] = []
    for row in range(3):
        context = batch.contexts[row, : batch.context_lengths[row]].tolist()
        response = batch.responses[row, : batch.response_lengths[row]].tolist()
        state = author.network.start(1)
        for place, id in enumerate(context + response):
            mark = id in (encoding.me, encoding.you)
            if not mark and (learn == "dialogue" or place >= len(context)):
                nats.append(-float(author.network.log_probs(state)[0, id]))
            state = author.network.advance(state, torch.tensor([id]))
    assert n == len(nats)
    assert total.item() == pytest.approx(sum(nats) / len(nats), abs=1e-4)


def test_perplexity_of_model_and_ngrams(tmp_path: Path) -> None:
    task = made(tmp_path, "generative")
    scores, tokens = task.scribe.perplexities(task.data.dev)
    nats, other = [], []
    for one in task.data.dev:
        for text in one.responses:
            nats += task.scribe.log_probs([(one, text)])[0].tolist()
            other += task.scribe.ngram_log_probs([text])[0].tolist()
    assert tokens == len(nats) == len(other)
    assert scores["perplexity"] == pytest.approx(math.exp(-sum(nats) / tokens), rel=1e-4)
    assert scores["ngram_perplexity"] == pytest.approx(math.exp(-sum(other) / tokens), rel=1e-9)


def test_ranking_score_subtracts_log_prob_without_context(tmp_path: Path) -> None:
    task = made(tmp_path, "generative")
    one = task.data.dev[0]
    texts = (*one.responses, "the cat", "tea and tea")
    (found,) = task.scribe.scores([RankingExample(one, texts)])
    for text, score in zip(texts, found, strict=True):
        after = task.scribe.log_probs([(one, text)])[0]
        alone = task.scribe.log_probs([(Exchange((), (), SourceLocation("x", 1)), text)])[0]
        assert score == pytest.approx((after.sum() - alone.sum()) / len(after), abs=1e-5)


def test_truncated_responses_are_marked_and_ranked_last(tmp_path: Path) -> None:
    task = made(tmp_path, "seq2seq")
    model = WritingPredictor(task.config, task.scribe)
    reply = model.predict(["the cat"], PredictOptions(n_best=6, max_length=2))[0]
    ends = [found.finished for found in reply.responses]
    assert ends == sorted(ends, key=lambda end: not end)
    assert True in ends
    assert False in ends
    assert json.loads(model.write(reply, "the cat", "jsonl"))["responses"][-1]["finished"] is False
    assert len(model.remarks(reply)) == ends.count(False)
    assert "cut at --max-length 2, before the end" in model.remarks(reply)[0]
    assert model.searching(PredictOptions(max_length=2)).config.evaluation.search.max_length == 2
    assert "cut at evaluation.search.max_length = 6" in model.remarks(Reply(reply.responses))[0]


def test_copy_model_copies_unknown_context_words(tmp_path: Path) -> None:
    names = [a + b + c for a in "bdgk" for b in "aeiou" for c in ("zu", "ro", "ti")]
    path = tmp_path / "x.tsv"
    path.write_text("".join(f"my name is {name}\thello {name}\n" for name in names), encoding="utf-8")
    own = config(
        path,
        "seq2seq",
        model=COPY,
        vocabulary={"min_count": 2},
        training={"max_steps": 80, "eval_every": 40, "optimizer": "adam", "learning_rate": 0.03},
        evaluation={"written": 0, "search": {"kind": "greedy", "max_length": 6}},
        data={"split": "end", "dev_fraction": 0.1},
    )
    ConverseApplication().train(own, tmp_path / "run", SilentReporter())
    model = ConverseApplication().load(tmp_path / "run", "cpu")
    assert isinstance(model, WritingPredictor)
    assert str(model.predict(["my name is wumpelfitz"])[0]) == "hello wumpelfitz"
    looks = model.looks("my name is wumpelfitz")
    assert looks.rows == ("hello", "wumpelfitz", "</s>")
    assert looks.columns == ("<you>", "my", "name", "is", "wumpelfitz", "</s>", "<me>")
    (weights,) = looks.layers
    assert looks.columns[int(weights[0, 1].argmax())] == "wumpelfitz"
    assert "wumpelfitz" in model.picture("my name is wumpelfitz", PredictOptions(word="wumpelfitz")).svg


def test_sketch_without_attention_raises(tmp_path: Path) -> None:
    cases: list[tuple[str, dict[str, Any], str]] = [
        ("generative", {}, "model.kind must be 'seq2seq' .*, got 'generative'"),
        ("seq2seq", {"network": {"d": 8, "d_embedding": 4, "attention": "none"}}, "has no attention to its context"),
    ]
    for kind, model, problem in cases:
        task = made(tmp_path, kind, **model)
        with pytest.raises(DataError, match=problem):
            WritingPredictor(task.config, task.scribe).sketch("the cat")
    with pytest.raises(DataError, match="The response to ' ' is empty"):
        WritingPredictor(task.config, task.scribe).sketch(" ")
    network = {"kind": "transformer", "d": 8, "n_heads": 2, "d_ff": 8, "n_encoder_layers": 1, "n_decoder_layers": 1}
    task = made(tmp_path, "seq2seq", network=network)
    predictor = WritingPredictor(task.config, task.scribe)
    for options in (PredictOptions(within="source"), PredictOptions(within="target")):
        looks = predictor.looks("the cat", options)
        assert [weights.shape[1:] for weights in looks.layers] == [(len(looks.rows), len(looks.columns))]


def test_search_returns_n_responses(tmp_path: Path) -> None:
    task = made(tmp_path, "generative")
    model = WritingPredictor(task.config, task.scribe)
    context = model.exchange("hello __eot__ what about the cat ?")
    for search in (GreedyConfig(max_length=5), BeamConfig(max_length=5, width=2), SampleConfig(max_length=5)):
        found = model.written([context], search, torch.Generator().manual_seed(0), 3)[0]
        assert len(found) == 3
        assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
        assert all("<unk>" not in one.text for one in found)
    with torch.no_grad():  # long ones have a better mean
        task.scribe.author.network.output.scores.bias[task.scribe.encoding.end] -= 0.7
    by_length = BeamConfig(max_length=9, width=6, normalize="average", stop="length")
    listed = model.written([context], by_length, torch.Generator(), 6)[0]
    assert listed[0] == model.written([context], by_length, torch.Generator())[0][0]
    tokens = [len(task.scribe.encoding.tokenizer.tokens(one.text)) + bool(one.finished) for one in listed]
    means = [one.score / n for one, n in zip(listed, tokens, strict=True) if one.finished]
    assert means == sorted(means, reverse=True)
    assert [one.score for one in listed] != sorted((one.score for one in listed), reverse=True)


def test_beam_size_option_sets_the_beam(tmp_path: Path) -> None:
    task = made(tmp_path, "generative")
    model = WritingPredictor(task.config, task.scribe)
    how = model.searching(PredictOptions(beam_size=7)).config.evaluation.search
    assert isinstance(how, BeamConfig)
    assert (how.width, how.max_length) == (7, task.config.evaluation.search.max_length)
    found = model.predict(["hello"], PredictOptions(beam_size=7, n_best=3, max_length=4))[0].responses
    wanted = model.written([model.exchange("hello")], BeamConfig(width=7, max_length=4), torch.Generator(), 3)[0]
    assert [one.text for one in found] == [one.text for one in wanted]
