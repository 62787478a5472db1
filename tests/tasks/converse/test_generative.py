"""Generative models: turns as ids, log-probabilities against the stepper, training and copied words."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from catena.data.config import WordTokenizerConfig
from catena.data.conversations import Exchange
from catena.data.examples import SourceLocation
from catena.data.tokenize import build_tokenizer
from catena.data.vocabulary import UNK, Vocabulary
from catena.errors import DataError
from catena.randomness import Randomness
from catena.search.config import BeamConfig, GreedyConfig, SampleConfig
from catena.tasks.base import Origin
from catena.tasks.converse.config import GenerativeOptions
from catena.tasks.converse.evaluation import RankingExample
from catena.tasks.converse.generative import GenerativeTask
from catena.tasks.converse.model import MARKS, DialogueLM, ResponseBatch, TurnEncoding
from catena.tasks.neural import NetworkTraining
from catena.tasks.runs import load_task, train_run
from catena.tasks.sources import Sources
from catena.training.report import SilentReporter
from tests.tasks.converse.helpers import config, write_pairs

COPY: dict[str, Any] = {"network": {"kind": "copy", "d": 16, "d_embedding": 12, "encoder": {"d": 8}}, "ngram_order": 1}


@pytest.fixture
def encoding() -> TurnEncoding:
    vocabulary = Vocabulary(["hi", "there", "you"], specials=MARKS)
    return TurnEncoding(build_tokenizer(WordTokenizerConfig(lowercase=True)), vocabulary, 6)


def exchange(*turns: str) -> Exchange:
    return Exchange(turns, (), SourceLocation("x", 1))


def test_context_has_speaker_and_end_symbols(encoding: TurnEncoding) -> None:
    context = encoding.context(exchange("hi", "you there"))
    names = encoding.vocabulary.tokens(context.ids.tolist())
    assert names == ["<me>", "hi", "</s>", "<you>", "you", "there", "</s>", "<me>"][-7:], (
        "the last six, and who is next"
    )
    assert encoding.vocabulary.tokens(encoding.response("Hi you").tolist()) == ["hi", "you", "</s>"]
    assert encoding.response("hi " * 9).tolist()[-1] == encoding.end
    assert len(encoding.response("hi " * 9)) == 7


def test_unknown_words_have_extra_ids_for_copy_models(encoding: TurnEncoding) -> None:
    context = encoding.context(exchange("bob hi ann bob"))
    size = len(encoding.vocabulary)
    assert context.new == ("bob", "ann")
    assert context.copies.tolist() == [encoding.you, size, encoding.vocabulary.ids(["hi"])[0], size + 1, size,
                                       encoding.end, encoding.me]  # fmt: skip
    assert encoding.response("ann eve").tolist() == [UNK, UNK, encoding.end]
    ids = encoding.response("ann eve", context.new)
    assert ids.tolist() == [size + 1, UNK, encoding.end]
    assert encoding.text(ids[:1].tolist(), context.new) == "ann"


def prepared(tmp_path: Path, kind: str, **model: Any) -> NetworkTraining:
    own = config(write_pairs(tmp_path / "x.tsv", 3), kind, model=model)
    return GenerativeTask.prepare(own, Sources(GenerativeTask, own), Origin(Randomness(2)))


def made(tmp_path: Path, kind: str, **model: Any) -> tuple[GenerativeTask, list[Exchange]]:
    """A new model and its dev set."""
    training = prepared(tmp_path, kind, **model)
    assert isinstance(training.task, GenerativeTask)
    training.task.network.eval()
    return training.task, list(training.data.dev.exchanges)


def test_scores_do_not_depend_on_batch_or_training_mode(tmp_path: Path) -> None:
    generator = made(tmp_path, "seq2seq")[0].generator
    texts = ["cat", "a cat that sits", "", "dog and cat", "dog", "sits"]
    pairs = [(exchange(" ".join(["hello"] * (1 + i % 3))), text) for i, text in enumerate(texts)]
    generator.model.network.train()
    for score in (generator.log_probs, lambda pairs: generator.ngram_log_probs([text for _, text in pairs])):
        generator.at_once = 64
        together = score(pairs)
        generator.at_once = 2
        for one, own, again in zip(pairs, score(pairs), together, strict=True):
            assert own.dtype == np.float64
            assert own.tolist() == pytest.approx(again.tolist(), abs=1e-5)
            assert own.tolist() == pytest.approx(score([one])[0].tolist(), abs=1e-5)
    assert generator.model.network.training, "the training mode is restored"


@pytest.mark.parametrize(("kind", "model"), [("generative", {}), ("seq2seq", {}), ("seq2seq", COPY)])
def test_log_probs_equal_those_of_the_stepper(kind: str, model: dict[str, Any], tmp_path: Path) -> None:
    task, dev = made(tmp_path, kind, **model)
    pairs = [(e, text) for e in dev[:2] for text in e.responses] + [(exchange("zork"), "a zork cat")]
    log_probs = task.generator.log_probs(pairs)
    for (one, text), own in zip(pairs, log_probs, strict=True):
        context = task.generator.encoding.context(one)
        stepper, state = task.response_model.start(ResponseBatch.of_contexts([context], torch.device("cpu")))
        for id, log_prob in zip(task.generator.response(text, context).tolist(), own.tolist(), strict=True):
            assert float(stepper.log_probs(state)[0, id]) == pytest.approx(log_prob, abs=1e-4)
            state = stepper.advance(state, torch.tensor([id]))


@pytest.mark.parametrize("learn", ["dialogue", "response"])
def test_loss_counts_words_and_ends_but_not_speakers(learn: str, tmp_path: Path) -> None:
    training = prepared(tmp_path, "generative", learn=learn)
    task, rows = training.task, training.data.train
    assert isinstance(task, GenerativeTask)
    task.network.eval()
    model, encoding = task.response_model, task.encoding
    assert isinstance(model, DialogueLM)
    batch = task.collate(rows, np.arange(3))
    total, n = model.loss(batch)
    nats: list[float] = []
    for row in range(3):
        context = batch.contexts[row, : batch.context_lengths[row]].tolist()
        response = batch.responses[row, : batch.response_lengths[row]].tolist()
        state = model.network.start(1)
        for place, id in enumerate(context + response):
            mark = id in (encoding.me, encoding.you)
            if not mark and (learn == "dialogue" or place >= len(context)):
                nats.append(-float(model.network.log_probs(state)[0, id]))
            state = model.network.advance(state, torch.tensor([id]))
    assert n == len(nats)
    assert total.item() == pytest.approx(sum(nats) / len(nats), abs=1e-4)


def test_perplexity_of_model_and_ngrams(tmp_path: Path) -> None:
    task, dev = made(tmp_path, "generative")
    result = task.evaluate_dev(task.encode(dev))
    nats, other = [], []
    for one in dev:
        for text in one.responses:
            nats += task.generator.log_probs([(one, text)])[0].tolist()
            other += task.generator.ngram_log_probs([text])[0].tolist()
    assert len(nats) == len(other)
    scores = result.scores()
    assert scores["perplexity"] == pytest.approx(math.exp(-sum(nats) / len(nats)), rel=1e-4)
    assert scores["nats_per_token"] == pytest.approx(-sum(nats) / len(nats), rel=1e-4)
    assert scores["ngram_perplexity"] == pytest.approx(math.exp(-sum(other) / len(nats)), rel=1e-9)
    assert result.signatures()["perplexity"] == f"perplexity|tokens:words|ends:counted|n={len(dev)}"
    assert "mrr" not in scores, "dev is not ranked in training"
    paired = result.paired("perplexity")
    assert float(paired.metric(paired.references, paired.predictions)) == pytest.approx(scores["perplexity"])
    assert [text for text, _ in paired.references] == [text for one in dev for text in one.responses]
    assert paired.unknown == pytest.approx(result.unknown)
    new = Exchange(("hello",), ("zork quux",), SourceLocation("x", 1))
    assert task.evaluate_dev(task.encode([new])).unknown == pytest.approx(2 / 3), "the end symbol is known"


def test_distinct_ngrams_of_generated_responses(tmp_path: Path) -> None:
    task, dev = made(tmp_path, "generative")
    result = task.evaluate(dev)
    assert len(result.generated) == min(3, len(dev))
    for n in (1, 2):
        grams = [tuple(row[i : i + n]) for row in result.generated for i in range(len(row) - n + 1)]
        expected = len(set(grams)) / len(grams) if grams else 0.0
        assert result.scores()[f"distinct_{n}"] == pytest.approx(expected)
    assert list(result.scores())[:2] == ["recall@1", "recall@2"], "a file is ranked too"
    assert result.to_dict()["intervals"]["perplexity"] is not None
    assert any(line.startswith("distinct_2 ") for line in result.lines())


def test_ranking_score_subtracts_log_prob_without_context(tmp_path: Path) -> None:
    task, dev = made(tmp_path, "generative")
    one = dev[0]
    texts = (*one.responses, "the cat", "tea and tea")
    (scores,) = task.generator.scores([RankingExample(one, texts)])
    for text, score in zip(texts, scores, strict=True):
        after = task.generator.log_probs([(one, text)])[0]
        alone = task.generator.log_probs([(Exchange((), (), SourceLocation("x", 1)), text)])[0]
        assert score == pytest.approx((after.sum() - alone.sum()) / len(after), abs=1e-5)


def test_truncated_responses_are_marked_and_ranked_last(tmp_path: Path) -> None:
    model, _ = made(tmp_path, "seq2seq")
    options = GenerativeOptions(n_best=6, max_length=2)
    prediction = model.predict(["the cat"], options)[0]
    truncated = [one.truncated for one in prediction.n_best]
    assert truncated == sorted(truncated, key=bool)
    assert True in truncated
    assert False in truncated
    assert prediction.to_dict()["n_best"][-1]["truncated"] is True
    warnings = model.warnings(prediction, options)
    assert len(warnings) == truncated.count(True)
    assert "cut at --max-length 2, before the end" in warnings[0]
    assert model.search_options(GenerativeOptions(max_length=2)).config.evaluation.search.max_length == 2
    assert "cut at evaluation.search.max_length = 6" in model.warnings(prediction, GenerativeOptions())[0]


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
    train_run(own, tmp_path / "run", SilentReporter())
    model = load_task(tmp_path / "run", "cpu")
    assert isinstance(model, GenerativeTask)
    assert str(model.predict(["my name is wumpelfitz"])[0]) == "hello wumpelfitz"
    example = model.to_example("my name is wumpelfitz")
    maps = model.attention(example, GenerativeOptions())
    assert maps.rows == ("hello", "wumpelfitz", "</s>")
    assert maps.columns == ("<you>", "my", "name", "is", "wumpelfitz", "</s>", "<me>")
    (weights,) = maps.layers
    assert maps.columns[int(weights[0, 1].argmax())] == "wumpelfitz"
    assert "wumpelfitz" in model.draw(example, GenerativeOptions(word="wumpelfitz")).svg


def test_drawing_without_attention_raises(tmp_path: Path) -> None:
    cases: list[tuple[str, dict[str, Any], str]] = [
        ("generative", {}, "model.kind must be 'seq2seq' .*, got 'generative'"),
        ("seq2seq", {"network": {"d": 8, "d_embedding": 4, "attention": "none"}}, "has no attention to its context"),
    ]
    for kind, network, problem in cases:
        model, _ = made(tmp_path, kind, **network)
        with pytest.raises(DataError, match=problem):
            model.draw_text(model.to_example("the cat"), GenerativeOptions())
    with pytest.raises(DataError, match="The response to '' is empty"):
        model.draw_text(model.to_example(" "), GenerativeOptions())
    small = {"kind": "transformer", "d": 8, "n_heads": 2, "d_ff": 8, "n_encoder_layers": 1, "n_decoder_layers": 1}
    model, _ = made(tmp_path, "seq2seq", network=small)
    for options in (GenerativeOptions(within="source"), GenerativeOptions(within="target")):
        maps = model.attention(model.to_example("the cat"), options)
        assert [weights.shape[1:] for weights in maps.layers] == [(len(maps.rows), len(maps.columns))]


def test_search_returns_n_responses(tmp_path: Path) -> None:
    model, _ = made(tmp_path, "generative")
    context = model.to_example("hello __eot__ what about the cat ?")
    for search in (GreedyConfig(max_length=5), BeamConfig(max_length=5, beam_size=2), SampleConfig(max_length=5)):
        responses = model.generate([context], search, torch.Generator().manual_seed(0), 3)[0]
        assert len(responses) == 3
        assert [one.score for one in responses] == sorted((one.score for one in responses), reverse=True)
        assert all("<unk>" not in one.text for one in responses)
    with torch.no_grad():  # long ones have a better mean
        model.network.output.scores.bias[model.encoding.end] -= 0.7
    by_length = BeamConfig(max_length=9, beam_size=6, normalize="average", stop="length")
    listed = model.generate([context], by_length, torch.Generator(), 6)[0]
    assert listed[0] == model.generate([context], by_length, torch.Generator())[0][0]
    tokens = [len(model.encoding.tokenizer.tokens(one.text)) + bool(one.finished) for one in listed]
    means = [one.score / n for one, n in zip(listed, tokens, strict=True) if one.finished]
    assert means == sorted(means, reverse=True)
    assert [one.score for one in listed] != sorted((one.score for one in listed), reverse=True)


def test_beam_size_option_sets_the_beam(tmp_path: Path) -> None:
    model, _ = made(tmp_path, "generative")
    search = model.search_options(GenerativeOptions(beam_size=7)).config.evaluation.search
    assert isinstance(search, BeamConfig)
    assert (search.beam_size, search.max_length) == (7, model.config.evaluation.search.max_length)
    prediction = model.predict(["hello"], GenerativeOptions(beam_size=7, n_best=3, max_length=4))[0]
    context = model.to_example("hello")
    expected = model.generate([context], BeamConfig(beam_size=7, max_length=4), torch.Generator(), 3)[0]
    assert [one.response for one in prediction.n_best] == [one.text for one in expected]


def test_loaded_model_predicts_the_same_and_goes_through_a_stream(tmp_path: Path) -> None:
    own = config(write_pairs(tmp_path / "x.tsv", 3), "generative", training={"max_epochs": 1})
    train_run(own, tmp_path / "run", SilentReporter())
    one, two = (load_task(tmp_path / "run", "cpu") for _ in range(2))
    options = GenerativeOptions(seed=3)
    assert one.predict(["tea", "cat"], options) == two.predict(["tea", "cat"], options)
    assert one.predict(["tea"] * 5, options) != one.predict(["tea"] * 5, GenerativeOptions(seed=4))
