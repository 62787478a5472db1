"""Train, resume, load, translate and evaluate, for several model kinds."""

from __future__ import annotations

import json
import math
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from catena import config as configs
from catena.data.reading import ReadCounter
from catena.errors import CheckpointError, ConfigError, DataError, FormatError
from catena.randomness import Randomness
from catena.search.config import BaseSearchConfig, BeamConfig, GreedyConfig, SampleConfig
from catena.seq2seq.recurrent import RecurrentEncoderDecoder
from catena.tasks.base import Origin
from catena.tasks.runs import load_task, train_run
from catena.tasks.sources import Sources
from catena.tasks.translate.candidates import Candidates
from catena.tasks.translate.config import TranslateConfig, TranslateOptions
from catena.tasks.translate.predict import TranslateEvaluation
from catena.tasks.translate.task import GUESSED, TranslateTask
from catena.tasks.writing import PredictionWriter, to_json
from catena.training.report import SilentReporter
from tests.laws.network_laws import the_network_answers
from tests.laws.resume_laws import SEED, killed_anywhere_ends_the_same
from tests.tasks.translate.toy import RECURRENT, TRANSFORMER, sentences, toy_config, write_files

TEXTS = ["The dog hears the child today.", "A bird looks for a man.", "The cat sees the dog in the garden."]
RIGHT = ["Der Hund hört heute das Kind.", "Ein Vogel sucht einen Mann.", "Die Katze sieht im Garten den Hund."]
LEARNING = {"optimizer": "adam", "learning_rate": 0.01, "max_epochs": 11, "patience": 0}
CONVOLUTIONAL = {"kind": "convolutional", "d": 16, "d_embedding": 16, "n_encoder_layers": 1, "n_decoder_layers": 1}
COPY = {"kind": "copy", "d": 16, "d_embedding": 16, "encoder": {"kind": "recurrent", "d": 8}}
KINDS = {"recurrent": RECURRENT, "transformer": TRANSFORMER, "convolutional": CONVOLUTIONAL, "copy": COPY}
BPE = {"kind": "bpe", "size": 300}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_files(tmp_path_factory.mktemp("data"))


def train(config: TranslateConfig, folder: Path) -> TranslateTask:
    train_run(config, folder, SilentReporter())
    return load(folder)


def load(folder: Path) -> TranslateTask:
    found = load_task(folder, "cpu")
    assert isinstance(found, TranslateTask)
    return found


def texts(model: TranslateTask, items: list[str], options: TranslateOptions | None = None) -> list[str]:
    return [one.translation for one in model.predict(items, options)]


def searching(model: TranslateTask, search: BaseSearchConfig) -> TranslateTask:
    """The same model with another search in its config."""
    return model._with(search=search)


def reading(model: TranslateTask, **values: Any) -> TranslateTask:
    """The same model with options for reading a file."""
    return model._with(data=model.config.data.for_reading(values))


def evaluate(model: TranslateTask, path: Path, **values: Any) -> TranslateEvaluation:
    model = reading(model, **values) if values else model
    found = model.evaluate(model.read(model.config, path, ReadCounter()))
    assert isinstance(found, TranslateEvaluation)
    return found


def sources(model: TranslateTask, path: Path, **values: Any) -> list[str]:
    model = reading(model, **values) if values else model
    return [example.source for example in model.read_inputs(path, ReadCounter())]


def pairs(model: TranslateTask, path: Path, **values: Any) -> list[tuple[str, str]]:
    model = reading(model, **values) if values else model
    return [(example.source, example.target) for example in model.read(model.config, path, ReadCounter())]


@pytest.fixture(scope="module")
def run(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has learned the small language, evaluated only by perplexity."""
    folder = tmp_path_factory.mktemp("runs") / "learned"
    train(toy_config(files, training=LEARNING, evaluation={"sentences": 0}), folder)
    return folder


@pytest.fixture(scope="module")
def model(run: Path) -> TranslateTask:
    return load(run)


# --- translating ------------------------------------------------------------------------------------------------------


def test_training_learns_a_small_language(model: TranslateTask, files: Path) -> None:
    assert [str(prediction) for prediction in model.predict(TEXTS)] == RIGHT
    report = evaluate(model, files / "dev.en", target=[str(files / "dev.de")])
    scores = report.scores()
    assert scores["bleu"] > 90
    assert scores["bleu"] <= scores["bleu_lowercase"] + 1e-9
    assert scores["ter"] < 10
    assert report.signatures()["bleu"].startswith("BLEU|nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    assert report.lines()[0] == "30 pairs, 243 target tokens; 0 unknown source tokens"
    assert evaluate(model, files / "dev.en").scores() == scores, "the references of dev are known from training"


@pytest.mark.parametrize("kind", KINDS)
def test_every_model_kind_trains_loads_and_predicts(kind: str, files: Path, tmp_path: Path) -> None:
    tokens = {"kind": "words"} if kind in ("recurrent", "copy") else BPE
    model = train(toy_config(files, KINDS[kind], tokenizer=tokens), tmp_path / "run")
    options = TranslateOptions(n_best=2, scores=True, alignment=True, beam_size=3)
    predictions = model.predict([*TEXTS, "", "Xyzzy!"], options)
    assert [len(prediction.n_best) for prediction in predictions] == [2, 2, 2, 0, 2]
    again = load(tmp_path / "run").predict([*TEXTS, "", "Xyzzy!"], options)
    assert [to_json(one.to_dict()) for one in predictions] == [to_json(one.to_dict()) for one in again]
    for prediction in predictions:
        for one in prediction.n_best:
            assert one.log_probs is not None
            assert one.attention is not None
            assert len(one.log_probs) == len(one.tokens) + (not one.truncated)
            for layer in one.attention:
                assert layer.shape[1:] == (len(one.log_probs), len(prediction.source_tokens) + 1)
                assert np.allclose(layer.sum(axis=2), 1, atol=1e-4)
    if tokens is BPE:  # the marks of byte-level pieces are not shown
        shown = [token for one in predictions for token in (*one.source_tokens, *one.tokens)]
        assert any(token.startswith("▁") for token in shown)
        assert not any("Ġ" in token for token in shown)
    assert model.describe(3)


def test_log_prob_is_the_sum_of_token_log_probs(model: TranslateTask, tmp_path: Path) -> None:
    (tmp_path / "constraints").write_text("Garten\n\nheute\n", encoding="utf-8")
    n, v = len(model.encoding.source.vocabulary), len(model.encoding.target.vocabulary)
    few = Candidates(np.arange(1, v - 5), np.full((n, 1), v - 1), v)
    for candidates in (None, few):
        bound = TranslateTask(model.config, model.encoding, model.translator, candidates)
        for constraint in (None, tmp_path / "constraints"):
            found = bound.predict(TEXTS, TranslateOptions(n_best=3, scores=True, constraint=constraint))
            assert all(prediction.n_best for prediction in found)
            for prediction in found:
                for one in prediction.n_best:
                    assert one.log_probs is not None
                    assert math.fsum(one.log_probs) == pytest.approx(one.log_prob, abs=1e-4)
                scores = [one.score for one in prediction.n_best]
                assert all(a >= b for a, b in pairwise(scores))


def test_predict_does_not_depend_on_the_batch(model: TranslateTask) -> None:
    texts = [x for x, _ in sentences()[:10]]
    options = TranslateOptions(beam_size=2, scores=True)
    together = model.predict(texts, options)
    backwards = list(model.predict_stream(iter(texts[::-1]), options))[::-1]
    assert len(texts) > 0
    for text, one, other in zip(texts, together, backwards, strict=True):
        alone = model.predict([text], options)[0]
        assert str(one) == str(other) == str(alone)
        assert one.log_prob == pytest.approx(alone.log_prob, abs=1e-4)


def test_predict_stream_keeps_order_and_empty_lines(model: TranslateTask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("catena.tasks.base.BaseTask.stream_block", 4)
    lines = [TEXTS[0], "", TEXTS[1], "  ", TEXTS[2], TEXTS[0], "", TEXTS[1], ""]
    wanted = [RIGHT[TEXTS.index(line)] if line in TEXTS else "" for line in lines]
    assert [one.to_text("text") for one in model.predict_stream(iter(lines))] == wanted


def test_predict_stream_samples_each_block_separately(model: TranslateTask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("catena.tasks.base.BaseTask.stream_block", 1)
    warm = searching(model, SampleConfig(temperature=3.0, max_length=9))
    options = TranslateOptions(samples=6, seed=3)
    sampled = [tuple(map(str, one.n_best)) for one in warm.predict_stream(TEXTS[:1] * 3, options)]
    assert sampled[0] == tuple(map(str, warm.predict(TEXTS[:1], options)[0].n_best))
    assert len(set(sampled)) == 3, "18 samples that repeat only with tiny probability"


def test_options_choose_the_search(model: TranslateTask) -> None:
    assert isinstance(model.search_config(TranslateOptions(beam_size=1)), GreedyConfig)
    found = model.search_config(TranslateOptions(beam_size=7, length_penalty=0.3, n_best=2))
    assert isinstance(found, BeamConfig)
    assert (found.beam_size, found.length_penalty, found.n_best, found.normalize) == (7, 0.3, 2, "gnmt")
    assert model.search_config(TranslateOptions(n_best=9)).beam_size == 9  # type: ignore[attr-defined]
    assert model.search_config(TranslateOptions()) == model.config.search
    sampled = model.predict(TEXTS[:1] * 2, TranslateOptions(samples=6, seed=3))
    assert [len(one.n_best) for one in sampled] == [6, 6]
    cool = SampleConfig(temperature=0.5, no_repeat=2, max_length=9)
    wanted = cool.model_copy(update={"n": 4})
    assert searching(model, cool).search_config(TranslateOptions(samples=4)) == wanted
    several = searching(model, BeamConfig(beam_size=4, n_best=3))
    assert several.search_config(TranslateOptions(scores=True)).n_best == 1, "one row per text"  # type: ignore[attr-defined]
    assert not several.predict(TEXTS[:1])[0].n_best
    greedy = model.search_options(TranslateOptions(beam_size=1))
    assert isinstance(greedy.config.search, GreedyConfig)
    assert texts(greedy, TEXTS) == RIGHT


@pytest.mark.parametrize("options", [{"n_best": 3}, {"beam_size": 4}, {"length_penalty": 0.2}, {"samples": 2}])
def test_options_keep_the_search_limits_of_the_config(options: dict[str, Any], model: TranslateTask) -> None:
    limits = {"max_length": 30, "min_length": 2, "no_repeat": 3}
    for own in (GreedyConfig, BeamConfig):
        limited = searching(model, own.model_validate(limits))
        assert limited.search_config(TranslateOptions(**options)).limits() == limits
        assert limited.search_config(TranslateOptions(beam_size=1)) == GreedyConfig.model_validate(limits)


def test_truncated_translations_are_marked_and_ranked_last(model: TranslateTask) -> None:
    options = TranslateOptions(n_best=3, scores=True, alignment=True)
    whole = model.predict(TEXTS[:1], options)[0]
    assert not any(one.truncated for one in whole.n_best)
    assert not model.warnings(whole, options)
    least = min(len(one.tokens) for one in model.predict(TEXTS[:1], TranslateOptions(n_best=5))[0].n_best)
    for n in (1, 3, least + 1):
        options = TranslateOptions(n_best=5, scores=True, alignment=True, max_length=n)
        prediction = model.predict(TEXTS[:1], options)[0]
        cut = [one.truncated for one in prediction.n_best]
        assert cut == sorted(cut)
        assert any(cut)
        for one in prediction.n_best:
            assert one.log_probs is not None
            assert one.attention is not None
            assert len(one.tokens) <= n
            assert len(one.log_probs) == one.attention[0].shape[1] == len(one.tokens) + (not one.truncated)
            assert math.fsum(one.log_probs) == pytest.approx(one.log_prob, abs=0.05), "the end is left out of both"
        assert [row["truncated"] for row in prediction.to_dict()["n_best"]] == cut
        (words,) = set(model.warnings(prediction, options))
        assert len(model.warnings(prediction, options)) == sum(cut)
        assert f"cut at --max-length {n}, before the end" in words
    short = model.search_options(TranslateOptions(max_length=3, beam_size=1))
    plain = TranslateOptions()
    assert "</s>" not in short.draw_text(short.to_example(TEXTS[0]), plain).splitlines()[-1]
    (words,) = short.warnings(short.predict(TEXTS[:1])[0], plain)
    assert "(2 * source tokens + 3, rounded up to a multiple of 32, at most 3)" in words
    long = model.predict(TEXTS[:1], TranslateOptions(max_length=900))[0]
    assert (long.translation, long.truncated) == (RIGHT[0], False)


def test_length_limit_follows_the_source(model: TranslateTask) -> None:
    searcher, how = model.searcher, model.config.search
    assert [searcher.limit(n, how) for n in (1, 6, 7, 2000)] == [32, 32, 64, 2000]
    assert searcher.limit(1, GreedyConfig(max_length=5)) == 5


# --- robustness -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "Xyzzy",
        "翻译这个句子",
        "ᚠᚢᚦ",
        "a" * 3000,
        "\x00",
        "…",
        "\t",
        "😀 😀",
        "The dog " * 1000,
        "\ud800",
        "the\u2028dog",
    ],
)
def test_predict_unusual_texts(text: str, model: TranslateTask) -> None:
    prediction = model.predict([text], TranslateOptions(beam_size=1))[0]
    assert prediction.source == text
    assert "\n" not in prediction.to_text("text")
    assert "<unk>" not in str(prediction)
    json.loads(to_json(prediction.to_dict()))


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(st.text(max_size=30), max_size=4), beam=st.integers(1, 3))
def test_predict_keeps_the_order_of_any_texts(texts: list[str], beam: int, model: TranslateTask) -> None:
    short = searching(model, GreedyConfig(max_length=8))
    options = TranslateOptions(beam_size=beam, scores=True, alignment=True)
    predictions = list(short.predict_stream(iter(texts), options))
    assert [prediction.source for prediction in predictions] == texts
    for prediction in predictions:
        tokens = model.encoding.source.tokenizer.tokens(prediction.source)
        assert (prediction.log_prob is not None) == bool(tokens)
        assert len(prediction.to_text("text").splitlines()) <= 1
        json.loads(to_json(prediction.to_dict()))


def test_long_source_is_translated_unless_positions_are_limited(files: Path, tmp_path: Path) -> None:
    long = "The dog " * 1000
    attending = searching(train(toy_config(files, TRANSFORMER), tmp_path / "t"), GreedyConfig(max_length=40))
    assert attending.predict([long])[0].tokens
    limited = train(toy_config(files, CONVOLUTIONAL), tmp_path / "c")
    with pytest.raises(DataError, match=r"at most 1,024 tokens \(model\.max_length\), got 2,001\. Split the text"):
        limited.predict(["short", long])
    (tmp_path / "sources.txt").write_text(f"The dog\n{long}\nThe dog\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"sources\.txt:2: A text must have at most 1,024 tokens"):
        list(limited.predict_stream(limited.read_inputs(tmp_path / "sources.txt", ReadCounter())))
    with pytest.MonkeyPatch.context() as here:
        here.setattr("catena.tasks.translate.search.MAX_SOURCE_TOKENS", 1500)
        with pytest.raises(DataError, match=r"at most 1,500 tokens, got 2,001.*starts with 'The dog The"):
            attending.predict(["short", long])


def test_text_without_known_words_is_marked(model: TranslateTask) -> None:
    predictions = model.predict(["Xyzzy!", "The zork.", "", "."])
    assert [one.known for one in predictions] == [False, True, False, True]
    assert [GUESSED in model.warnings(one, TranslateOptions()) for one in predictions] == [True, False, False, False]
    assert predictions[0].to_dict()["known"] is False


def test_predict_single_text_or_unknown_option_raises(model: TranslateTask) -> None:
    for predict in (model.predict, lambda text: list(model.predict_stream(text))):
        with pytest.raises(DataError, match="predict must get a list, got one text"):
            predict("The dog")
    with pytest.raises(DataError, match="a text must be a string, got int: 3"):
        model.predict([3])
    with pytest.raises(ConfigError, match="confidence"):
        configs.parse(TranslateOptions, {"confidence": True})
    with pytest.raises(ConfigError, match="Unknown metric 'accuracy' of a translator"):
        model.find_metric("accuracy")


# --- constraints ------------------------------------------------------------------------------------------------------


def test_translations_satisfy_constraints(model: TranslateTask, tmp_path: Path) -> None:
    path = tmp_path / "constraints.txt"
    options = TranslateOptions(constraint=path)
    path.write_text("Katze\t-Hund\n\n^Der\n", encoding="utf-8")
    first, second, third = texts(model, TEXTS, options)
    assert "Katze" in first
    assert "Hund" not in first
    assert second == RIGHT[1]
    assert third.startswith("Der ")
    path.write_text("-heute\n", encoding="utf-8")
    translations = [str(one) for one in model.predict_stream(iter(TEXTS * 2), options)]
    assert len(translations) == 6
    assert all("heute" not in translation for translation in translations)
    path.write_text("Hund\nKind\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"txt must have 1 line, or one line for each of the .*3.* texts, got 2 lines"):
        model.predict(TEXTS, options)
    with pytest.raises(DataError, match="one line for each of the 1 texts, got 2 lines"):
        list(model.predict_stream(iter(TEXTS[:1]), options))


def test_constraints_apply_to_subwords(files: Path, tmp_path: Path) -> None:
    model = train(toy_config(files, tokenizer=BPE), tmp_path / "run")
    path = tmp_path / "constraints.txt"
    path.write_text("im Garten\t-der\t^Ein\n", encoding="utf-8")
    for translation in texts(model, TEXTS, TranslateOptions(constraint=path)):
        assert "im Garten" in translation
        assert translation.startswith("Ein")
        assert "der" not in translation.replace(".", " ").split()


# --- alignments -------------------------------------------------------------------------------------------------------


def test_alignment_output_and_picture(model: TranslateTask) -> None:
    example, plain = model.to_example(TEXTS[0]), TranslateOptions()
    prediction = model.predict(TEXTS[:1], TranslateOptions(alignment=True, scores=True))[0]
    fields = next(PredictionWriter("tsv").lines(prediction)).split("\t")
    assert fields[:2] == [TEXTS[0], RIGHT[0]]
    assert float(fields[2]) == pytest.approx(prediction.log_prob, abs=1e-4)
    links = dict(pair.split("|")[::-1] for pair in fields[3].split())
    assert links["Hund"] in ("dog", "The", "hears")
    row = prediction.to_dict()
    assert len(row["attention"][0][0]) == len(row["log_probs"]) == len(row["tokens"]) + 1
    drawing = model.draw(example, plain).svg
    assert all(word in drawing for word in ("Hund", "hears", "&lt;/s&gt;"))
    lines = model.draw_text(example, plain).splitlines()
    assert lines[0].split() == [*prediction.source_tokens, "</s>"]
    assert [line.split()[0] for line in lines[1:]] == [*prediction.tokens, "</s>"]
    with pytest.raises(DataError, match="The translation of ' ' is empty"):
        model.draw_text(model.to_example(" "), plain)


def test_picture_of_one_layer_head_or_word(files: Path, tmp_path: Path) -> None:
    model = train(toy_config(files, TRANSFORMER), tmp_path / "run")
    example = model.to_example(TEXTS[0])

    def rows(**options: Any) -> list[str]:
        lines = model.draw_text(example, TranslateOptions(**options)).splitlines()[1:]
        return [line.split("  ")[0].strip() for line in lines]

    def picture(**options: Any) -> str:
        return model.draw(example, TranslateOptions(**options)).svg

    word = model.predict(TEXTS[:1])[0].tokens[0]
    assert rows(word=word) == [f"layer {i}, head {h}" for i in (1, 2) for h in (1, 2)]
    assert rows(word=word, layer=2, head=1) == ["layer 2, head 1"]
    assert picture(layer=1) != picture(layer=2)
    assert picture(head=1) != picture(head=2)
    with pytest.raises(DataError, match="--layer must be from 1 to 2, got 3"):
        picture(layer=3)
    within = model.attention(example, TranslateOptions(within="source"))
    assert [weights.shape for weights in within.layers] == [(2, len(within.rows), len(within.rows))]
    assert within.rows == within.columns == (*model.predict(TEXTS[:1])[0].source_tokens, "</s>")
    assert rows(within="source", word="dog", head=2) == ["layer 1, head 2"]
    within = model.attention(example, TranslateOptions(within="target"))
    assert len(within.layers) == 2
    assert all(not np.triu(weights, 1).any() for weights in within.layers)
    assert within.columns == ("<s>", *within.rows[:-1])
    with pytest.raises(DataError, match="'Hond' is not one of the words that attend"):
        picture(word="Hond")


def test_model_without_attention_has_no_alignment(files: Path, tmp_path: Path) -> None:
    model = train(toy_config(files, {**RECURRENT, "attention": "none"}), tmp_path / "run")
    options, example = TranslateOptions(alignment=True), model.to_example(TEXTS[0])
    prediction = model.predict(TEXTS[:1], options)[0]
    assert prediction.alignment() == []
    assert any("this model has no attention" in words for words in model.warnings(prediction, options))
    plain = TranslateOptions()
    assert not any("attention" in words for words in model.warnings(model.predict(TEXTS[:1])[0], plain))
    with pytest.raises(DataError, match="kind 'recurrent' has no attention to its source"):
        model.draw(example, plain)
    with pytest.raises(DataError, match=r"kind 'recurrent' has no self-attention within its target. Use a Transformer"):
        model.draw(example, TranslateOptions(within="target"))


# --- unknown words, candidates, ensembles -----------------------------------------------------------------------------


def test_unknown_words_are_avoided_kept_or_copied(files: Path, tmp_path: Path) -> None:
    rare = {"min_count": 1, "max_size": 12}
    model = train(
        toy_config(files, training={**LEARNING, "max_epochs": 3}, vocabulary=rare, evaluation={"sentences": 0}),
        tmp_path / "run",
    )
    items = [x for x, _ in sentences()[:20]]
    found = {}
    for way in ("avoid", "keep", "copy"):
        writing = model.config.writing.model_copy(update={"unknown": way})
        found[way] = texts(model._with(search=GreedyConfig(), writing=writing), items)
    assert not any("<unk>" in text for text in found["avoid"] + found["copy"])
    assert any("<unk>" in text for text in found["keep"])
    for prediction in model.predict(items[:5], TranslateOptions(scores=True)):
        assert prediction.log_probs is not None
        assert math.fsum(prediction.log_probs) == pytest.approx(prediction.log_prob, abs=1e-4), (
            "<unk> has no probability"
        )
    for text, kept, copied in zip(items, found["keep"], found["copy"], strict=True):
        words, parts = text.replace(".", " .").split(), kept.replace(".", " .").split()
        for own, part in zip(copied.replace(".", " .").split(), parts, strict=True):
            assert own in words if part == "<unk>" else own == part


def test_candidates_are_saved_and_respected(model: TranslateTask, files: Path, tmp_path: Path) -> None:
    made = toy_config(files, writing={"candidates": 3, "candidates_each": 3}, evaluation={"sentences": 0})
    few = train(made, tmp_path / "run").candidates
    assert few is not None
    bound = TranslateTask(model.config, model.encoding, model.translator, few)
    items = [x for x, _ in sentences()[:20]]
    for text, prediction in zip(items, bound.predict(items), strict=True):
        allowed = few.allowed([model.models[0].code(text).ids])[0]
        assert all(allowed[i] for i in model.encoding.target.vocabulary.ids(prediction.tokens))
    assert texts(bound, TEXTS) == RIGHT
    one, other = (m.predict(TEXTS[:1])[0].log_prob for m in (bound, model))
    assert one is not None
    assert other is not None
    assert one > other, "candidates get the probability of all others"


def test_ensemble_averages_probabilities(run: Path, model: TranslateTask, files: Path, tmp_path: Path) -> None:
    other = train(toy_config(files, TRANSFORMER, seed=5), tmp_path / "other")
    both = model.ensemble([other])
    keeping = both._with(writing=both.config.writing.model_copy(update={"unknown": "keep"}))
    one = keeping.predict(TEXTS[:1], TranslateOptions(scores=True, n_best=2))[0]
    assert one.log_probs is not None
    ids = torch.tensor([[*both.encoding.target.vocabulary.ids(one.tokens), both.encoding.end]])
    each = []
    for part in both.models:
        source = part.batch([part.code(TEXTS[0])])
        log_probs = part.network.token_log_probs(source, ids, torch.tensor([ids.shape[1]]))
        each.append(log_probs.detach().double().exp())
    wanted = ((each[0] + each[1]) / 2).log()[0]
    assert torch.allclose(torch.tensor(one.log_probs, dtype=torch.float64), wanted, atol=1e-5)
    assert texts(model.ensemble([model]), TEXTS) == RIGHT
    assert evaluate(both, files / "dev.tsv").scores().keys() == {"bleu", "chrf", "bleu_lowercase", "ter"}
    pieces = train(toy_config(files, tokenizer=BPE), tmp_path / "pieces")
    with pytest.raises(ConfigError, match="need the same target vocabulary; the one of model 2"):
        model.ensemble([pieces])


# --- runs -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["recurrent", "transformer"])
def test_resume_after_kill_gives_the_same_model(kind: str, files: Path, tmp_path: Path) -> None:
    made = toy_config(
        files,
        {**KINDS[kind], "dropout": 0.2},
        batches={"batch_size": 600, "batch_by": "tokens"},
        evaluation={"sentences": 4},
    )

    def make_task() -> Any:
        return TranslateTask.prepare(made, Sources(TranslateTask, made), Origin(Randomness(SEED)))

    how = made.training.model_copy(update={"max_epochs": 2, "save_every": 2})
    killed_anywhere_ends_the_same(make_task, how, tmp_path, kills=[6])


def test_scores_of_training_equal_those_of_the_loaded_model(files: Path, tmp_path: Path) -> None:
    made = toy_config(files, training={**LEARNING, "max_epochs": 3})
    made = made.model_copy(update={"search": GreedyConfig(max_length=100), "data": _with_test(made, files)})
    trained = train_run(made, tmp_path / "run", SilentReporter())
    found = evaluate(load(tmp_path / "run"), files / "dev.en").scores()
    for scores in (trained.scores, trained.test_scores):
        assert scores.keys() == {"bleu", "chrf", "perplexity", "nats_per_token"}
        assert {name: found[name] for name in scores} == pytest.approx(scores, abs=1e-4)


def _with_test(config: TranslateConfig, files: Path) -> Any:
    return config.data.model_copy(update={"test_source": str(files / "dev.en"), "test_target": str(files / "dev.de")})


def test_moved_run_translates_and_resumes(run: Path, files: Path, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere" / "run"
    shutil.copytree(run, moved, symlinks=True)
    assert texts(load(moved), TEXTS) == RIGHT
    shutil.copytree(moved / "best", tmp_path / "alone")
    assert texts(load(tmp_path / "alone"), TEXTS) == RIGHT
    (tmp_path / "alone" / "target-vocabulary.json").unlink()
    with pytest.raises(CheckpointError, match=r"target-vocabulary\.json"):
        load(tmp_path / "alone")


def test_training_from_an_old_run_keeps_its_vocabulary(run: Path, files: Path, tmp_path: Path) -> None:
    few = tmp_path / "few.tsv"
    few.write_text(
        "The dog sees the zebra.\tDer Hund sieht das Zebra.\nA man sees.\tEin Mann sieht.\n" * 3, encoding="utf-8"
    )
    made = toy_config(files, data={"train": [str(few)]})
    train_run(made, tmp_path / "new", SilentReporter(), init_from=run)
    model = load(tmp_path / "new")
    assert "Katze" in model.encoding.target.vocabulary
    assert "Zebra" not in model.encoding.target.vocabulary
    other = toy_config(files, TRANSFORMER)
    with pytest.raises(CheckpointError, match="the model must have the options of the one in"):
        train_run(other, tmp_path / "bad", SilentReporter(), init_from=run)


def test_two_runs_are_compared_by_any_metric(model: TranslateTask, files: Path) -> None:
    result = evaluate(model, files / "dev.en")
    for metric in ("bleu", "ter", "rouge_l", "perplexity"):
        paired = result.paired(metric)
        rows = paired.metric.statistics(paired.references, paired.predictions)
        assert len(rows) == 30
        assert math.isfinite(float(paired.metric.score(rows.sum(0))))
    assert model.find_metric("bleu").higher_is_better
    assert not model.find_metric("ter").higher_is_better
    assert not model.find_metric("perplexity").higher_is_better
    evaluation = model.config.evaluation.model_copy(update={"metrics": ("rouge_l",)})
    summary = evaluate(model._with(evaluation=evaluation), files / "dev.en")
    assert summary.scores().keys() == {"rouge_l", "perplexity", "nats_per_token"}


def test_read_inputs_of_lines_or_pairs(model: TranslateTask, files: Path) -> None:
    wanted = [x for x, _ in sentences()]
    assert sources(model, files / "all.tsv") == wanted
    assert sources(model, files / "all.tsv", input_format="text") == wanted
    assert sources(model, files / "dev.en") == wanted[195:]
    named = files / "named.tsv"
    named.write_text("a\tb\nc\n", encoding="utf-8")
    assert sources(model, named, input_format="text", swap=True) == ["b", "c"]
    named.write_text("Source\tTarget\na\tb\nsource\ttarget\n", encoding="utf-8")
    for values in ({}, {"input_format": "text"}):
        assert sources(model, named, **values) == ["a", "source"], "a first line may name the columns"
    named.write_text("The dog.\n\nA cat.\n", encoding="utf-8")
    assert sources(model, named) == ["The dog.", "", "A cat."], "every line has an output"


def test_read_inputs_of_csv_and_headers(model: TranslateTask, files: Path) -> None:
    wanted = sentences()[:20]
    rows = "".join(f'"{x}",{y}\n' for x, y in wanted)
    tabs = "".join(f"{x}\t{y}\n" for x, y in wanted)
    for name, text, format in (("h.csv", rows, "auto"), ("h.txt", rows, "csv"), ("t.tsv", tabs, "auto")):
        (files / name).write_text(("en\tde\n" if text is tabs else "en,de\n") + text, encoding="utf-8")
        assert sources(model, files / name, input_format=format) == [x for x, _ in wanted]
        assert pairs(model, files / name, input_format=format) == wanted
    for name in ("h.csv", "t.tsv"):
        assert sources(model, files / name, swap=True) == [y for _, y in wanted]
        assert pairs(model, files / name, swap=True) == [(y, x) for x, y in wanted]
    alone = files / "alone.csv"
    alone.write_text('"Yes, he sees."\nNo.\n', encoding="utf-8")
    assert sources(model, alone, swap=True, input_format="csv") == ["Yes, he sees.", "No."]


def test_columns_come_from_options_or_training(model: TranslateTask, files: Path) -> None:
    wanted = sentences()[:9]
    wide = "".join(f"{i}\t{x}\tok\t{y}\n" for i, (x, y) in enumerate(wanted))
    (files / "wide.tsv").write_text("no\tleft\tnote\tright\n" + wide, encoding="utf-8")
    (files / "objects").write_text("".join(json.dumps({"left": x, "right": y}) + "\n" for x, y in wanted))
    (files / "left.jsonl").write_text("".join(json.dumps({"left": x}) + "\n" for x, _ in wanted))
    both = {"source_column": "left", "target_column": "right"}
    for name in ("wide.tsv", "objects"):
        with pytest.raises(FormatError, match=r"has no source column with a common name.*--source-column"):
            sources(model, files / name)
        assert sources(model, files / name, **both) == [x for x, _ in wanted]
        assert sources(model, files / name, source_column="left") == [x for x, _ in wanted]
        assert pairs(model, files / name, **both) == wanted
        for half in ({"source_column": "left"}, {"target_column": "right"}):
            with pytest.raises(DataError, match="Only one of --source-column and --target-column is set"):
                pairs(model, files / name, **half)
    with pytest.raises(FormatError, match="'middle'"):
        sources(model, files / "all.tsv", source_column="middle")

    def like(**more: Any) -> TranslateTask:
        return model._with(data=model.config.data.model_copy(update={**both, **more}))

    assert sources(like(), files / "wide.tsv") == [x for x, _ in wanted]
    assert sources(like(), files / "left.jsonl") == [x for x, _ in wanted]
    assert sources(like(swap=True), files / "wide.tsv") == [y for _, y in wanted]
    assert pairs(like(swap=True), files / "wide.tsv") == [(y, x) for x, y in wanted]
    listed = sentences()
    for name, found in (("all.tsv", listed), ("dev.en", listed[195:])):
        assert sources(like(), files / name) == [x for x, _ in found], "files without these columns"
    assert pairs(like(), files / "all.tsv") == listed


def test_references_must_not_be_given_twice(model: TranslateTask, files: Path) -> None:
    with pytest.raises(DataError, match=r"already contains targets. Remove --target \S+dev\.de"):
        pairs(model, files / "dev.tsv", target=[str(files / "dev.de")])
    plain = files / "plain.txt"
    plain.write_text("A line of text.\nAnother one.\n" * 9, encoding="utf-8")
    with pytest.raises(FormatError, match="has no pairs of texts"):
        pairs(model, plain)


def test_csv_with_unquoted_commas_raises_with_both_cures(model: TranslateTask, files: Path) -> None:
    path = files / "loose.csv"
    path.write_text('en,de\n"Yes, he sees.",Ja.\nNo.,Nein.\nYes, he, too.,Ja.\n', encoding="utf-8")
    with pytest.raises(
        FormatError, match=r"loose\.csv:4 is a record with 4 fields .* double quotes.* pass --input-format text"
    ):
        sources(model, path)
    assert len(sources(model, path, input_format="text")) == 4
    path.write_text("He sees, he hears.\nNo.\nYes, he, too.\n", encoding="utf-8")
    assert len(sources(model, path)) == 3, "lines of text"
    with pytest.raises(FormatError, match=r"loose\.csv:3 is a record with 3 fields"):
        sources(model, path, input_format="csv")


def test_format_for_follows_the_options(model: TranslateTask) -> None:
    assert model.format_for(TranslateOptions()) == model.format_for(TranslateOptions(beam_size=3)) == "text"
    assert model.format_for(TranslateOptions(n_best=2)) == model.format_for(TranslateOptions(alignment=True)) == "tsv"
    assert len(model.predict(TEXTS[:1], TranslateOptions(n_best=2))[0].to_text("text").splitlines()) == 2
    the_network_answers(model, TEXTS[:2])


def test_blank_text_has_an_empty_prediction_without_a_score(model: TranslateTask) -> None:
    for options in (TranslateOptions(scores=True, alignment=True), TranslateOptions(n_best=2, scores=True)):
        (prediction,) = model.predict(["  "], options)
        assert str(prediction) == prediction.to_text("text") == ""
        assert not model.warnings(prediction, options)
        (line,) = PredictionWriter("tsv").lines(prediction)
        assert line.count("\t") == 2 + options.alignment
        assert not line.strip()
        assert prediction.to_dict()["log_prob"] is None


class Heard(SilentReporter):
    """A reporter that collects notes."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, words: str) -> None:
        self.notes.append(words)


def test_without_sacrebleu_chrf_is_used_and_set_metrics_raise(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from catena.errors import MissingExtraError

    monkeypatch.setitem(__import__("sys").modules, "sacrebleu.metrics", None)
    asked: list[dict[str, Any]] = [{"evaluation": {"metrics": ["bleu"]}}, {"training": {"metric": "bleu"}}]
    for sections in asked:
        with pytest.raises(MissingExtraError, match=r"pip install sacrebleu"):
            train_run(toy_config(files, **sections), tmp_path / "run", SilentReporter())
        assert not (tmp_path / "run").exists()
    data = {"train": [str(files / "all.tsv")], "dev": str(files / "dev.tsv"), "test": str(files / "dev.tsv")}
    config = toy_config(files, training={"max_steps": 2}, data=data)
    heard = Heard()
    trained = train_run(config, tmp_path / "run", heard)
    assert (trained.metric, *trained.scores) == ("chrf", "chrf", "perplexity", "nats_per_token")
    assert [*trained.test_scores] == ["chrf", "perplexity", "nats_per_token"]
    notes = [note for note in heard.notes if not note.startswith("warning: ")]  # dev is a part of train here
    assert len(notes) == 1
    assert heard.notes[0].startswith("not scored: bleu (")
    assert heard.notes[0].endswith("pip install sacrebleu); chrf chooses the best checkpoint")
    made = load(tmp_path / "run")
    without = evaluate(made, files / "dev.tsv")
    assert [*without.scores()] == ["chrf", "perplexity", "nats_per_token"]
    assert without.lines()[-1].startswith("not scored: bleu, bleu_lowercase, ter (")
    monkeypatch.undo()
    assert evaluate(made, files / "dev.tsv").scores().keys() >= {"bleu", "chrf", "ter", "perplexity"}


@pytest.mark.parametrize("accumulate", [1, 4])
def test_schedules_advance_once_for_each_step(
    accumulate: int, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[int] = []
    set_progress = RecurrentEncoderDecoder.set_progress

    def record(network: RecurrentEncoderDecoder, step: int) -> None:
        steps.append(step)
        set_progress(network, step)

    monkeypatch.setattr(RecurrentEncoderDecoder, "set_progress", record)
    training = {"max_steps": 3, "accumulate": accumulate, "eval_every": 99}
    train_run(toy_config(files, training=training, evaluation={"sentences": 0}), tmp_path / "run", SilentReporter())
    assert [step for step, before in zip(steps, [None, *steps], strict=False) if step != before] == [0, 1, 2]


def test_targets_in_lower_case_are_scored_without_case(files: Path) -> None:
    cased, lower = {"kind": "words"}, {"kind": "words", "lowercase": True}
    for source, target, is_lower in ((lower, None, True), (lower, cased, False), (cased, lower, True)):
        given = {} if target is None else {"target_tokenizer": target}
        notes: list[str] = []
        made = TranslateTask.complete(toy_config(files, TRANSFORMER, tokenizer=source, **given), notes.append)
        assert made.evaluation.metrics == (("bleu_lowercase" if is_lower else "bleu"), "chrf")
        assert notes == ["targets are in lower case, so BLEU ignores case (bleu_lowercase)"] * is_lower
