"""Train, resume, load, translate and evaluate, for several model kinds."""

from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from catena.errors import CheckpointError, ConfigError, DataError, FormatError
from catena.randomness import Randomness
from catena.search.config import BeamConfig, GreedyConfig, SampleConfig
from catena.tasks.application import PredictOptions, ReadOptions
from catena.tasks.load import load
from catena.tasks.translate.application import TranslateApplication
from catena.tasks.translate.auto import choose
from catena.tasks.translate.candidate_vocabulary import Candidates
from catena.tasks.translate.config import TranslateConfig
from catena.tasks.translate.predictor import GUESSED, TranslatePredictor
from catena.training.report import SilentReporter
from tests.laws.blank_laws import blank_is_answered_by_nothing
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


def train(config: TranslateConfig, folder: Path) -> TranslatePredictor:
    TranslateApplication().train(config, folder, SilentReporter())
    found = TranslateApplication().load(folder, "cpu")
    assert isinstance(found, TranslatePredictor)
    return found


@pytest.fixture(scope="module")
def run(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has learned the small language, evaluated only by perplexity."""
    folder = tmp_path_factory.mktemp("runs") / "learned"
    train(toy_config(files, training=LEARNING, evaluation={"sentences": 0}), folder)
    return folder


@pytest.fixture(scope="module")
def model(run: Path) -> TranslatePredictor:
    found = load(run, "cpu")
    assert isinstance(found, TranslatePredictor)
    return found


# --- translating ------------------------------------------------------------------------------------------------------


def test_training_learns_a_small_language(model: TranslatePredictor, files: Path) -> None:
    assert [str(answer) for answer in model.predict(TEXTS)] == RIGHT
    report = model.evaluate(files / "dev.en", ReadOptions(target=files / "dev.de"))
    assert report.scores["bleu"] > 90
    assert report.scores["bleu"] <= report.scores["bleu_lowercase"] + 1e-9
    assert report.scores["ter"] < 10
    assert report.signatures["bleu"].startswith("BLEU|nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    assert report.lines[0] == "30 pairs, 243 target tokens; 0 unknown source tokens"


@pytest.mark.parametrize("kind", KINDS)
def test_every_model_kind_trains_loads_and_predicts(kind: str, files: Path, tmp_path: Path) -> None:
    tokens = {"kind": "words"} if kind in ("recurrent", "copy") else BPE
    model = train(toy_config(files, KINDS[kind], tokenizer=tokens), tmp_path / "run")
    options = PredictOptions(n_best=2, scores=True, alignment=True, beam_size=3)
    answers = model.predict([*TEXTS, "", "Xyzzy!"], options)
    assert [len(answer.translations) for answer in answers] == [2, 2, 2, 0, 2]
    again = TranslateApplication().load(tmp_path / "run", "cpu").predict([*TEXTS, "", "Xyzzy!"], options)
    assert [model.write(a, a.text, "jsonl") for a in answers] == [model.write(a, a.text, "jsonl") for a in again]
    for answer in answers:
        for one in answer.translations:
            assert one.log_probs is not None
            assert one.attention is not None
            assert len(one.log_probs) == len(one.tokens) + one.finished
            for layer in one.attention:
                assert layer.shape[1:] == (len(one.log_probs), len(answer.tokens) + 1)
                assert np.allclose(layer.sum(axis=2), 1, atol=1e-4)
    assert model.describe(3)


def test_log_prob_is_the_sum_of_token_log_probs(model: TranslatePredictor, tmp_path: Path) -> None:
    (tmp_path / "constraints").write_text("Garten\n\nheute\n", encoding="utf-8")
    n, v = len(model.encoding.source.vocabulary), len(model.encoding.target.vocabulary)
    few = Candidates(np.arange(1, v - 5), np.full((n, 1), v - 1), v)
    for candidates in (None, few):
        bound = TranslatePredictor(model.config, model.members, candidates)
        for constraint in (None, tmp_path / "constraints"):
            for answer in bound.predict(TEXTS, PredictOptions(n_best=3, scores=True, constraint=constraint)):
                for one in answer.translations:
                    assert one.log_probs is not None
                    assert math.fsum(one.log_probs) == pytest.approx(one.log_prob, abs=1e-4)
                scores = [one.score for one in answer.translations]
                assert all(a >= b for a, b in pairwise(scores))


def test_predict_does_not_depend_on_the_batch(model: TranslatePredictor) -> None:
    texts = [x for x, _ in sentences()[:10]]
    options = PredictOptions(beam_size=2, scores=True)
    together = model.predict(texts, options)
    backwards = list(model.predict_stream(iter(texts[::-1]), options))[::-1]
    for text, one, other in zip(texts, together, backwards, strict=True):
        alone = model.predict([text], options)[0]
        assert str(one) == str(other) == str(alone)
        assert one.translations[0].log_prob == pytest.approx(alone.translations[0].log_prob, abs=1e-4)


def test_predict_stream_keeps_order_and_empty_lines(model: TranslatePredictor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("catena.tasks.translate.predictor.BLOCK", 4)
    lines = [TEXTS[0], "", TEXTS[1], "  ", TEXTS[2], TEXTS[0], "", TEXTS[1], ""]
    wanted = [RIGHT[TEXTS.index(line)] if line in TEXTS else "" for line in lines]
    assert [model.write(a, a.text, "text") for a in model.predict_stream(iter(lines))] == wanted


def test_predict_stream_samples_each_block_separately(
    model: TranslatePredictor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("catena.tasks.translate.predictor.BLOCK", 1)
    hot = model.config.model_copy(update={"search": SampleConfig(temperature=3.0, max_length=9)})
    warm, options = TranslatePredictor(hot, model.members), PredictOptions(samples=6, seed=3)
    drawn = [tuple(one.text for one in a.translations) for a in warm.predict_stream(TEXTS[:1] * 3, options)]
    assert drawn[0] == tuple(one.text for one in warm.predict(TEXTS[:1], options)[0].translations)
    assert len(set(drawn)) == 3, "18 samples that repeat only with tiny probability"


def test_options_choose_the_search(model: TranslatePredictor) -> None:
    assert isinstance(model._search(PredictOptions(beam_size=1)), GreedyConfig)
    found = model._search(PredictOptions(beam_size=7, length_penalty=0.3, n_best=2))
    assert isinstance(found, BeamConfig)
    assert (found.width, found.alpha, found.n_best, found.normalize) == (7, 0.3, 2, "gnmt")
    assert model._search(PredictOptions(n_best=9)).width == 9  # type: ignore[attr-defined]
    assert model._search(PredictOptions()) == model.config.search
    drawn = model.predict(TEXTS[:1] * 2, PredictOptions(samples=6, seed=3))
    assert [len(a.translations) for a in drawn] == [6, 6]
    cool = SampleConfig(temperature=0.5, no_repeat=2, max_length=9)
    config = model.config.model_copy(update={"search": cool})
    assert TranslatePredictor(config, model.members)._search(PredictOptions(samples=4)) == cool.model_copy(
        update={"n": 4}
    )
    several = model.config.model_copy(update={"search": BeamConfig(width=4, n_best=3)})
    one = TranslatePredictor(several, model.members).predict(TEXTS[:1], PredictOptions(scores=True))[0]
    assert len(one.translations) == 1, "a table has one line per text unless n_best is set"
    greedy = model.searching(PredictOptions(beam_size=1))
    assert isinstance(greedy.config.search, GreedyConfig)
    assert greedy.texts(TEXTS) == RIGHT


@pytest.mark.parametrize("options", [{"n_best": 3}, {"beam_size": 4}, {"length_penalty": 0.2}, {"samples": 2}])
def test_options_keep_the_search_limits_of_the_config(options: dict[str, Any], model: TranslatePredictor) -> None:
    bound = {"max_length": 30, "min_length": 2, "no_repeat": 3}
    for own in (GreedyConfig, BeamConfig):
        config = model.config.model_copy(update={"search": own.model_validate(bound)})
        found = TranslatePredictor(config, model.members)
        assert found._search(PredictOptions(**options)).limits() == bound
        assert found._search(PredictOptions(beam_size=1)) == GreedyConfig.model_validate(bound)


def test_truncated_translations_are_marked_and_ranked_last(model: TranslatePredictor) -> None:
    whole = model.predict(TEXTS[:1], PredictOptions(n_best=3, scores=True, alignment=True))[0]
    assert all(one.finished for one in whole.translations)
    assert not model.remarks(whole)
    least = min(len(one.tokens) for one in model.predict(TEXTS[:1], PredictOptions(n_best=5))[0].translations)
    for n in (1, 3, least + 1):
        answer = model.predict(TEXTS[:1], PredictOptions(n_best=5, scores=True, alignment=True, max_length=n))[0]
        ends = [one.finished for one in answer.translations]
        assert ends == sorted(ends, reverse=True)
        assert not all(ends)
        for one in answer.translations:
            assert one.log_probs is not None
            assert one.attention is not None
            assert len(one.tokens) <= n
            assert len(one.log_probs) == one.attention[0].shape[1] == len(one.tokens) + one.finished
            assert math.fsum(one.log_probs) == pytest.approx(one.log_prob, abs=0.05), "the end is left out of both"
        rows = json.loads(model.write(answer, TEXTS[0], "jsonl"))["translations"]
        assert [row["finished"] for row in rows] == ends
        (words,) = set(model.remarks(answer))
        assert len(model.remarks(answer)) == ends.count(False)
        assert f"cut at --max-length {n}, before the end" in words
    short = model.searching(PredictOptions(max_length=3, beam_size=1))
    assert "</s>" not in short.sketch(TEXTS[0]).splitlines()[-1]
    (words,) = short.remarks(short.predict(TEXTS[:1])[0])
    assert "(2 * source tokens + 3, rounded up to a multiple of 32, at most 3)" in words
    long = model.predict(TEXTS[:1], PredictOptions(max_length=900))[0].translations[0]
    assert (long.text, long.finished) == (RIGHT[0], True)


def test_length_limit_follows_the_source(model: TranslatePredictor) -> None:
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
def test_predict_unusual_texts(text: str, model: TranslatePredictor) -> None:
    answer = model.predict([text], PredictOptions(beam_size=1))[0]
    assert answer.text == text
    assert "\n" not in model.write(answer, text, "text")
    assert "<unk>" not in str(answer)
    json.loads(model.write(answer, text, "jsonl"))


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(st.text(max_size=30), max_size=4), beam=st.integers(1, 3))
def test_predict_keeps_the_order_of_any_texts(texts: list[str], beam: int, model: TranslatePredictor) -> None:
    answers = list(
        up_to(8, model).predict_stream(iter(texts), PredictOptions(beam_size=beam, scores=True, alignment=True))
    )
    assert [answer.text for answer in answers] == texts
    for answer in answers:
        assert bool(answer.translations) == bool(model.encoding.source.tokenizer.tokens(answer.text))
        assert len(model.write(answer, answer.text, "text").splitlines()) <= 1
        json.loads(model.write(answer, answer.text, "jsonl"))


def up_to(n: int, model: TranslatePredictor) -> TranslatePredictor:
    """The model with at most ``n`` tokens per translation."""
    return TranslatePredictor(model.config.model_copy(update={"search": GreedyConfig(max_length=n)}), model.members)


def test_long_source_is_translated_unless_positions_are_limited(files: Path, tmp_path: Path) -> None:
    long = "The dog " * 1000
    attending = up_to(40, train(toy_config(files, TRANSFORMER), tmp_path / "t"))
    assert attending.predict([long])[0].translations
    limited = train(toy_config(files, CONVOLUTIONAL), tmp_path / "c")
    with pytest.raises(DataError, match=r"at most 1,024 tokens \(model\.max_length\), got 2,001\. Split the text"):
        limited.predict(["short", long])
    with pytest.MonkeyPatch.context() as here:
        here.setattr("catena.tasks.translate.search.MOST", 1500)
        with pytest.raises(DataError, match=r"at most 1,500 tokens, got 2,001.*starts with 'The dog The"):
            attending.predict(["short", long])


def test_text_without_known_words_is_marked(model: TranslatePredictor) -> None:
    answers = model.predict(["Xyzzy!", "The zork.", "", "."])
    assert [answer.known for answer in answers] == [False, True, False, True]
    assert [GUESSED in model.remarks(answer) for answer in answers] == [True, False, False, False]
    assert json.loads(model.write(answers[0], "Xyzzy!", "jsonl"))["known"] is False


def test_predict_single_text_or_unknown_option_raises(model: TranslatePredictor) -> None:
    for ask in (model.predict, lambda text: list(model.predict_stream(text))):
        with pytest.raises(DataError, match="predict must get a list of texts"):
            ask("The dog")
    with pytest.raises(
        DataError, match=r"--confidence is not an option of .* Supported options: --alignment, --beam-size"
    ):
        model.predict(TEXTS, PredictOptions(confidence=True))
    with pytest.raises(DataError, match="Unknown metric 'accuracy' of a translator"):
        model.answers(Path("x"), "accuracy")


# --- constraints ------------------------------------------------------------------------------------------------------


def test_translations_satisfy_constraints(model: TranslatePredictor, tmp_path: Path) -> None:
    constraints = tmp_path / "constraints.txt"
    constraints.write_text("Katze\t-Hund\n\n^Der\n", encoding="utf-8")
    first, second, third = map(str, model.predict(TEXTS, PredictOptions(constraint=constraints)))
    assert "Katze" in first
    assert "Hund" not in first
    assert second == RIGHT[1]
    assert third.startswith("Der ")
    constraints.write_text("-heute\n", encoding="utf-8")
    assert all(
        "heute" not in str(a) for a in model.predict_stream(iter(TEXTS * 2), PredictOptions(constraint=constraints))
    )
    constraints.write_text("Hund\nKind\n", encoding="utf-8")
    for ask in (model.predict, lambda items, options: list(model.predict_stream(items, options))):
        with pytest.raises(
            DataError, match=r"txt must have 1 line, or one line for each of the .*3.* texts, got 2 lines"
        ):
            ask(TEXTS, PredictOptions(constraint=constraints))
    with pytest.raises(DataError, match="one line for each of the 1 texts, got 2 lines"):
        list(model.predict_stream(iter(TEXTS[:1]), PredictOptions(constraint=constraints)))


def test_constraints_apply_to_subwords(files: Path, tmp_path: Path) -> None:
    model = train(toy_config(files, tokenizer=BPE), tmp_path / "run")
    constraints = tmp_path / "constraints.txt"
    constraints.write_text("im Garten\t-der\t^Ein\n", encoding="utf-8")
    for answer in model.predict(TEXTS, PredictOptions(constraint=constraints)):
        assert f" {answer} ".replace(".", " .").count(" im Garten ") == 1 or "im Garten" in str(answer)
        assert str(answer).startswith("Ein")
        assert "der" not in str(answer).replace(".", " ").split()


# --- alignments -------------------------------------------------------------------------------------------------------


def test_alignment_output_and_picture(model: TranslatePredictor) -> None:
    answer = model.predict(TEXTS[:1], PredictOptions(alignment=True, scores=True))[0]
    fields = model.write(answer, TEXTS[0], "tsv").split("\t")
    assert fields[:2] == [TEXTS[0], RIGHT[0]]
    assert float(fields[2]) == pytest.approx(answer.translations[0].log_prob, abs=1e-4)
    links = dict(pair.split("|")[::-1] for pair in fields[3].split())
    assert links["Hund"] in ("dog", "The", "hears")
    row = json.loads(model.write(answer, TEXTS[0], "jsonl"))["translations"][0]
    assert len(row["attention"][0][0]) == len(row["log_probs"]) == len(row["tokens"]) + 1
    drawing = model.picture(TEXTS[0]).svg
    assert all(word in drawing for word in ("Hund", "hears", "&lt;/s&gt;"))
    lines = model.sketch(TEXTS[0]).splitlines()
    assert lines[0].split() == [*answer.tokens, "</s>"]
    assert [line.split()[0] for line in lines[1:]] == [*answer.translations[0].tokens, "</s>"]
    with pytest.raises(DataError, match="The translation of ' ' is empty"):
        model.sketch(" ")


def test_picture_of_one_layer_head_or_word(files: Path, tmp_path: Path) -> None:
    model = train(toy_config(files, TRANSFORMER), tmp_path / "run")
    word = model.predict(TEXTS[:1])[0].translations[0].tokens[0]
    rows = model.sketch(TEXTS[0], PredictOptions(word=word)).splitlines()[1:]
    assert [row.split("  ")[0].strip() for row in rows] == [f"layer {i}, head {h}" for i in (1, 2) for h in (1, 2)]
    rows = model.sketch(TEXTS[0], PredictOptions(word=word, layer=2, head=1)).splitlines()[1:]
    assert [row.split("  ")[0].strip() for row in rows] == ["layer 2, head 1"]
    assert model.picture(TEXTS[0], PredictOptions(layer=1)).svg != model.picture(TEXTS[0], PredictOptions(layer=2)).svg
    assert model.picture(TEXTS[0], PredictOptions(head=1)).svg != model.picture(TEXTS[0], PredictOptions(head=2)).svg
    with pytest.raises(DataError, match="--layer must be from 1 to 2, got 3"):
        model.picture(TEXTS[0], PredictOptions(layer=3))
    within = model.looks(TEXTS[0], PredictOptions(within="source"))
    assert [weights.shape for weights in within.layers] == [(2, len(within.rows), len(within.rows))]
    assert within.rows == within.columns == (*model.predict(TEXTS[:1])[0].tokens, "</s>")
    rows = model.sketch(TEXTS[0], PredictOptions(within="source", word="dog", head=2)).splitlines()[1:]
    assert [row.split("  ")[0].strip() for row in rows] == ["layer 1, head 2"]
    within = model.looks(TEXTS[0], PredictOptions(within="target"))
    assert len(within.layers) == 2
    assert all(not np.triu(weights, 1).any() for weights in within.layers)
    assert within.columns == ("<s>", *within.rows[:-1])
    with pytest.raises(DataError, match="'Hond' is not one of the words that attend"):
        model.picture(TEXTS[0], PredictOptions(word="Hond"))


def test_model_without_attention_has_no_alignment(files: Path, tmp_path: Path) -> None:
    model = train(toy_config(files, {**RECURRENT, "attention": "none"}), tmp_path / "run")
    answer = model.predict(TEXTS[:1], PredictOptions(alignment=True))[0]
    assert answer.translations[0].alignment() == []
    assert any("this model has no attention" in words for words in model.remarks(answer))
    assert not any("looks" in words for words in model.remarks(model.predict(TEXTS[:1])[0]))
    with pytest.raises(DataError, match="kind 'recurrent' has no attention to its source"):
        model.picture(TEXTS[0])
    with pytest.raises(DataError, match=r"kind 'recurrent' has no self-attention within its target. Use a Transformer"):
        model.picture(TEXTS[0], PredictOptions(within="target"))


# --- unknown words, candidates, ensembles -----------------------------------------------------------------------------


def test_unknown_words_are_avoided_kept_or_copied(files: Path, tmp_path: Path) -> None:
    rare = {"min_count": 1, "max_size": 12}
    model = train(
        toy_config(files, training={**LEARNING, "max_epochs": 3}, vocabulary=rare, evaluation={"sentences": 0}),
        tmp_path / "run",
    )
    texts = [x for x, _ in sentences()[:20]]
    found = {}
    for way in ("avoid", "keep", "copy"):
        config = model.config.model_copy(update={"writing": model.config.writing.model_copy(update={"unknown": way})})
        found[way] = TranslatePredictor(config, model.members).texts(texts, GreedyConfig())
    assert not any("<unk>" in text for text in found["avoid"] + found["copy"])
    assert any("<unk>" in text for text in found["keep"])
    for text, kept, copied in zip(texts, found["keep"], found["copy"], strict=True):
        words, parts = text.replace(".", " .").split(), kept.replace(".", " .").split()
        for own, part in zip(copied.replace(".", " .").split(), parts, strict=True):
            assert own in words if part == "<unk>" else own == part


def test_candidates_are_saved_and_respected(model: TranslatePredictor, files: Path, tmp_path: Path) -> None:
    made = toy_config(files, writing={"candidates": 3, "candidates_each": 3}, evaluation={"sentences": 0})
    few = train(made, tmp_path / "run").searcher.candidates
    assert few is not None
    bound = TranslatePredictor(model.config, model.members, few)
    texts = [x for x, _ in sentences()[:20]]
    for text, answer in zip(texts, bound.predict(texts), strict=True):
        allowed = few.allowed([model.members[0].code(text).ids])[0]
        assert all(allowed[i] for i in model.encoding.target.vocabulary.ids(answer.translations[0].tokens))
    assert bound.texts(TEXTS) == RIGHT
    one, other = (m.predict(TEXTS[:1])[0].translations[0].log_prob for m in (bound, model))
    assert one > other, "candidates get the probability of all others"


def test_ensemble_averages_probabilities(run: Path, model: TranslatePredictor, files: Path, tmp_path: Path) -> None:
    other = train(toy_config(files, TRANSFORMER, seed=5), tmp_path / "other")
    both = model.together([other])
    keeping = both.config.model_copy(update={"writing": both.config.writing.model_copy(update={"unknown": "keep"})})
    answer = TranslatePredictor(keeping, both.members).predict(TEXTS[:1], PredictOptions(scores=True, n_best=2))[0]
    one = answer.translations[0]
    assert one.log_probs is not None
    ids = torch.tensor([[*both.encoding.target.vocabulary.ids(one.tokens), both.encoding.end]])
    each = []
    for member in both.members:
        source = member.batch([member.code(TEXTS[0])])
        each.append(member.model.token_log_probs(source, ids, torch.tensor([ids.shape[1]])).detach().double().exp())
    wanted = ((each[0] + each[1]) / 2).log()[0]
    assert torch.allclose(torch.tensor(one.log_probs, dtype=torch.float64), wanted, atol=1e-5)
    assert model.together([model]).texts(TEXTS) == RIGHT
    assert both.evaluate(files / "dev.tsv").scores.keys() == {"bleu", "chrf", "bleu_lowercase", "ter"}
    pieces = train(toy_config(files, tokenizer=BPE), tmp_path / "pieces")
    with pytest.raises(ConfigError, match="need the same target vocabulary; that of model 2"):
        model.together([pieces])


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
        data = TranslateApplication().prepare(made, Randomness(SEED), None, None)
        return TranslateApplication().task(made, data, torch.device("cpu"), Randomness(SEED))

    how = made.training.model_copy(update={"max_epochs": 2, "save_every": 2})
    killed_anywhere_ends_the_same(make_task, how, tmp_path, kills=[6])


def test_scores_of_training_equal_those_of_the_loaded_model(files: Path, tmp_path: Path) -> None:
    made = toy_config(files, training={**LEARNING, "max_epochs": 3})
    made = made.model_copy(update={"search": GreedyConfig(max_length=100), "data": _with_test(made, files)})
    trained = TranslateApplication().train(made, tmp_path / "run", SilentReporter())
    model = TranslateApplication().load(tmp_path / "run", "cpu")
    found = model.evaluate(files / "dev.en", ReadOptions(target=files / "dev.de")).scores
    for scores in (trained.scores, trained.test_scores):
        assert scores.keys() == {"bleu", "chrf", "perplexity", "nats_per_token"}
        assert {name: found[name] for name in scores} == pytest.approx(scores, abs=1e-4)


def _with_test(config: TranslateConfig, files: Path) -> Any:
    return config.data.model_copy(update={"test_source": str(files / "dev.en"), "test_target": str(files / "dev.de")})


def test_moved_run_translates_and_resumes(run: Path, files: Path, tmp_path: Path) -> None:
    moved = tmp_path / "elsewhere" / "run"
    shutil.copytree(run, moved, symlinks=True)
    assert load(moved, "cpu").texts(TEXTS) == RIGHT
    shutil.copytree(moved / "best", tmp_path / "alone")
    assert load(tmp_path / "alone", "cpu").texts(TEXTS) == RIGHT
    (tmp_path / "alone" / "target-vocabulary.json").unlink()
    with pytest.raises(CheckpointError, match=r"target-vocabulary\.json"):
        load(tmp_path / "alone", "cpu")


def test_training_from_an_old_run_keeps_its_vocabulary(run: Path, files: Path, tmp_path: Path) -> None:
    few = tmp_path / "few.tsv"
    few.write_text(
        "The dog sees the zebra.\tDer Hund sieht das Zebra.\nA man sees.\tEin Mann sieht.\n" * 3, encoding="utf-8"
    )
    made = toy_config(files, data={"train": [str(few)]})
    TranslateApplication().train(made, tmp_path / "new", SilentReporter(), start_from=run)
    model = TranslateApplication().load(tmp_path / "new", "cpu")
    assert isinstance(model, TranslatePredictor)
    assert "Katze" in model.encoding.target.vocabulary
    assert "Zebra" not in model.encoding.target.vocabulary
    other = toy_config(files, TRANSFORMER)
    with pytest.raises(CheckpointError, match="the model must have the options of the one in"):
        TranslateApplication().train(other, tmp_path / "bad", SilentReporter(), start_from=run)


def test_answers_of_two_runs_are_compared_by_any_metric(model: TranslatePredictor, files: Path) -> None:
    reading = ReadOptions(target=files / "dev.de")
    for metric in ("bleu", "ter", "rouge_l", "perplexity"):
        answers = model.answers(files / "dev.en", metric, reading)
        rows = answers.measure.statistics(answers.right, answers.given)
        assert len(rows) == 30
        assert math.isfinite(float(answers.measure.score(rows.sum(0))))
    summary = replace_metrics(model, ("rouge_l",)).evaluate(files / "dev.en", reading)
    assert summary.scores.keys() == {"rouge_l", "perplexity", "nats_per_token"}
    by_name: Any = str(files / "dev.tsv")
    assert model.evaluate(by_name).lines[0].startswith("30 pairs")


def replace_metrics(model: TranslatePredictor, names: tuple[str, ...]) -> TranslatePredictor:
    evaluation = model.config.evaluation.model_copy(update={"metrics": names})
    return TranslatePredictor(model.config.model_copy(update={"evaluation": evaluation}), model.members)


def test_read_inputs_of_lines_or_pairs(model: TranslatePredictor, files: Path) -> None:
    sources = [x for x, _ in sentences()]
    assert list(model.read_inputs(files / "all.tsv")) == sources
    assert list(model.read_inputs(files / "all.tsv", ReadOptions(format="parallel"))) == sources
    assert list(model.read_inputs(files / "dev.en")) == sources[195:]
    swapped = model.config.data.model_copy(update={"swap": True})
    other = TranslatePredictor(model.config.model_copy(update={"data": swapped}), model.members)
    assert list(other.items_of_lines(iter(["a\tb", "c"]))) == ["b", "c"]
    named = files / "named.tsv"
    named.write_text("Source\tTarget\na\tb\nsource\ttarget\n", encoding="utf-8")
    for reading in (ReadOptions(), ReadOptions(format="parallel")):
        assert list(model.read_inputs(named, reading)) == ["a", "source"], "a first line may name the columns"


def test_read_inputs_of_csv_and_headers(model: TranslatePredictor, files: Path) -> None:
    pairs = sentences()[:20]
    rows = "".join(f'"{x}",{y}\n' for x, y in pairs)
    tabs = "".join(f"{x}\t{y}\n" for x, y in pairs)
    for name, text, format in (("h.csv", rows, None), ("h.txt", rows, "csv"), ("t.tsv", tabs, None)):
        (files / name).write_text(("en\tde\n" if text is tabs else "en,de\n") + text, encoding="utf-8")
        reading = ReadOptions(format=format)
        assert [*model.read_inputs(files / name, reading)] == [x for x, _ in pairs]
        assert model.about_inputs(files / name, reading) == [f"{files / name}:1 is a header (en, de), not a pair"]
        found = model.pairs(files / name, reading)
        assert [*zip(found.sources, found.targets, strict=True)] == pairs
        assert model.evaluate(files / name, reading).lines[0].endswith(":1 is a header (en, de), not a pair")
    swapped = TranslatePredictor(
        model.config.model_copy(update={"data": model.config.data.model_copy(update={"swap": True, "format": "csv"})}),
        model.members,
    )
    for name in ("h.csv", "t.tsv"):
        assert [*swapped.read_inputs(files / name)] == [y for _, y in pairs]
        assert swapped.pairs(files / name).targets == [x for x, _ in pairs], "the name says more than the training"
    alone = files / "alone.csv"
    alone.write_text('"Yes, he sees."\nNo.\n', encoding="utf-8")
    assert [*swapped.read_inputs(alone)] == ["Yes, he sees.", "No."]
    for name in ("dev.en", "dev.tsv", "alone.csv"):
        assert model.about_inputs(files / name) == []
    assert model.about_inputs(files / "t.tsv", ReadOptions(format="text")) == []


def test_columns_come_from_options_or_training(model: TranslatePredictor, files: Path) -> None:
    pairs = sentences()[:9]
    wide = "".join(f"{i}\t{x}\tok\t{y}\n" for i, (x, y) in enumerate(pairs))
    (files / "wide.tsv").write_text("no\tleft\tnote\tright\n" + wide, encoding="utf-8")
    (files / "objects").write_text("".join(json.dumps({"left": x, "right": y}) + "\n" for x, y in pairs))
    (files / "left.jsonl").write_text("".join(json.dumps({"left": x}) + "\n" for x, _ in pairs))
    asked = ReadOptions(source_column="left", target_column="right")
    for name in ("wide.tsv", "objects"):
        with pytest.raises(FormatError, match=r"which two are the pairs.*--source-column"):
            list(model.read_inputs(files / name))
        assert [*model.read_inputs(files / name, asked)] == [x for x, _ in pairs]
        assert [*model.read_inputs(files / name, ReadOptions(source_column="left"))] == [x for x, _ in pairs]
        assert model.pairs(files / name, asked).targets == [y for _, y in pairs]
        for half in (ReadOptions(source_column="left"), ReadOptions(target_column="right")):
            with pytest.raises(DataError, match="Only one of --source-column and --target-column is set"):
                model.pairs(files / name, half)
    trained = {"source_column": "left", "target_column": "right", "format": "tsv"}

    def like(**more: Any) -> TranslatePredictor:
        data = model.config.data.model_copy(update={**trained, **more})
        return TranslatePredictor(model.config.model_copy(update={"data": data}), model.members)

    assert like().about_inputs(files / "wide.tsv")[0].endswith("wide.tsv:1 is a header (left, right), not a pair")
    assert [*like().read_inputs(files / "wide.tsv")] == [x for x, _ in pairs]
    assert [*like().read_inputs(files / "left.jsonl")] == [x for x, _ in pairs]
    assert [*like(swap=True).read_inputs(files / "wide.tsv")] == [y for _, y in pairs]
    assert like(swap=True).pairs(files / "wide.tsv").targets == [x for x, _ in pairs]
    sources = [x for x, _ in sentences()]
    for name, found in (("all.tsv", sources), ("dev.en", sources[195:])):
        assert [*like().read_inputs(files / name)] == found, "files without these columns are read as ever"
    assert like().pairs(files / "all.tsv").sources == sources


def test_csv_with_unquoted_commas_raises_with_both_cures(model: TranslatePredictor, files: Path) -> None:
    path = files / "loose.csv"
    path.write_text("He sees, he hears.\nNo.\nYes, he, too.\n", encoding="utf-8")
    assert model.about_inputs(path) == []
    with pytest.raises(
        FormatError, match=r"loose\.csv:2 must have 2 fields .* double quotes.* pass --input-format text"
    ):
        list(model.read_inputs(path))
    assert len([*model.read_inputs(path, ReadOptions(format="text"))]) == 3


def test_format_for_follows_the_options(model: TranslatePredictor) -> None:
    assert model.format_for(PredictOptions()) == model.format_for(PredictOptions(beam_size=3)) == "text"
    assert model.format_for(PredictOptions(n_best=2)) == model.format_for(PredictOptions(alignment=True)) == "tsv"
    two = model.predict(TEXTS[:1], PredictOptions(n_best=2))[0]
    assert len(model.write(two, TEXTS[0], "text").splitlines()) == 2
    assert model.write(model.predict([""])[0], "", "tsv") == "\t"
    blank_is_answered_by_nothing(model, "translations")
    the_network_answers(model, TEXTS[:2])


class Heard(SilentReporter):
    """A reporter that collects notes."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, words: str) -> None:
        self.notes.append(words)


def test_without_sacrebleu_perplexity_is_used_and_set_metrics_raise(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from catena.errors import MissingExtraError

    monkeypatch.setitem(__import__("sys").modules, "sacrebleu.metrics", None)
    asked: list[dict[str, Any]] = [{"evaluation": {"metrics": ["bleu"]}}, {"training": {"metric": "bleu"}}]
    for sections in asked:
        with pytest.raises(MissingExtraError, match=r"pip install 'catena\[translate\]'"):
            TranslateApplication().train(toy_config(files, **sections), tmp_path / "run", SilentReporter())
        assert not (tmp_path / "run").exists()
    data = {"train": [str(files / "all.tsv")], "dev": str(files / "dev.tsv"), "test": str(files / "dev.tsv")}
    config = toy_config(files, training={"max_steps": 2}, data=data)
    heard = Heard()
    trained = TranslateApplication().train(config, tmp_path / "run", heard)
    assert (trained.metric, *trained.scores) == ("perplexity", "perplexity", "nats_per_token")
    assert [*trained.test_scores] == ["perplexity", "nats_per_token"]
    notes = [note for note in heard.notes if not note.startswith("warning: ")]  # dev is a part of train here
    assert len(notes) == 1
    assert heard.notes[0].startswith("not scored: bleu, chrf (")
    assert heard.notes[0].endswith("pip install 'catena[translate]'); perplexity chooses the best checkpoint")
    made = load(tmp_path / "run", device="cpu")
    without = made.evaluate(files / "dev.tsv")
    assert [*without.scores] == ["perplexity", "nats_per_token"]
    assert without.lines[-1].startswith("not scored: bleu, bleu_lowercase, chrf, ter (")
    monkeypatch.undo()
    assert made.evaluate(files / "dev.tsv").scores.keys() >= {"bleu", "chrf", "ter", "perplexity"}


def test_choose_model_by_pairs_and_time() -> None:
    many, why = choose(29_000, 900_000, 8000, 3600.0, 1e11)
    assert many.kind == "transformer"
    assert "a Transformer with" in why
    assert choose(29_000, 900_000, 8000, 3600.0, 1e9)[0].kind == "recurrent"
    few, why = choose(300, 6_000, 1000, 60.0, 1e10)
    assert few.kind == "recurrent"
    assert "few pairs" in why


def test_fit_to_time_chooses_a_model(files: Path) -> None:
    made, lines = TranslateApplication().fit_to_time(toy_config(files, training={"max_time": "30s"}))
    assert isinstance(made, TranslateConfig)
    assert made.model.kind == "recurrent"
    assert lines[0].startswith("chosen for 195 pairs in 30 s: a GRU")
    assert replace(PredictOptions(), seed=1).beyond() == set()
