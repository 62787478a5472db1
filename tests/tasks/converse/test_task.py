"""Train, resume, load, respond and evaluate, for every model kind."""

from __future__ import annotations

import json
import shutil
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from catena.data.conversations import Exchange
from catena.data.examples import SourceLocation
from catena.data.reading import ReadCounter
from catena.errors import CheckpointError, ConfigError, DataError
from catena.randomness import Randomness
from catena.tasks.base import Origin
from catena.tasks.converse.config import ConverseOptions
from catena.tasks.converse.dual import DualTask
from catena.tasks.converse.evaluation import RankingExample, build_ranking_examples
from catena.tasks.converse.generative import GenerativeTask
from catena.tasks.converse.rankers import DualRanker, MixedRanker, TermRanker
from catena.tasks.converse.task import GUESSED, ConverseTask, RetrievalTask, TermTask
from catena.tasks.runs import load_task, train_run
from catena.tasks.sources import Sources
from catena.tasks.writing import PredictionWriter
from catena.training.report import SilentReporter
from tests.laws.network_laws import the_network_answers
from tests.laws.resume_laws import SEED, killed_anywhere_ends_the_same
from tests.tasks.converse.helpers import KINDS, config, write_pairs


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pairs(tmp_path_factory.mktemp("data") / "pairs.tsv")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, pairs: Path) -> dict[str, Path]:
    """A trained run of each kind; the mixture is of the others that rank."""
    folder, found = tmp_path_factory.mktemp("runs"), {}
    for kind in KINDS:
        made = config(pairs, kind, data={"test": str(pairs)})
        trained = train_run(made, folder / kind, SilentReporter())
        assert trained.test_scores["mrr"] > 0
        found[kind] = folder / kind
    names = [str(found[kind]) for kind in ("dual", "tfidf", "bm25", "generative")]
    made = config(pairs, "mixture", model={"runs": names})
    train_run(made, folder / "mixture", SilentReporter())
    return {**found, "mixture": folder / "mixture"}


def load(folder: Path) -> ConverseTask[Any]:
    task = load_task(folder, "cpu")
    assert isinstance(task, ConverseTask)
    return task


def read(model: ConverseTask[Any], path: Path) -> list[Exchange]:
    return list(model.read(model.config, path, ReadCounter()))


def contexts_of(model: ConverseTask[Any], path: Path) -> list[tuple[str, ...]]:
    return [example.context for example in model.read_inputs(path, ReadCounter())]


ALL = [*KINDS, "mixture"]
CONTEXTS = ["hello __eot__ what about the cat ?", "", "tea 你好 ☕", "zzz", "a\u2028b"]


@pytest.mark.parametrize("kind", ALL)
def test_every_model_kind_responds_and_is_evaluated(kind: str, runs: dict[str, Path], pairs: Path) -> None:
    model = load(runs[kind])
    options = model.options_class(n_best=2, scores=True)
    predictions = model.predict(CONTEXTS, options)
    assert len(predictions) == len(CONTEXTS)
    assert str(predictions[1]) == "", "an empty context has no response"
    for prediction in (predictions[0], predictions[3]):
        scores = [one.log_prob if model.generates else one.score for one in prediction.n_best]
        assert len(scores) == 2
        assert scores == sorted(scores, reverse=True)
        assert prediction.response == prediction.n_best[0].response
    assert [prediction.known for prediction in predictions] == [True, False, True, False, True]
    warned = [GUESSED in model.warnings(prediction, options) for prediction in predictions]
    assert warned == [False, False, False, True, False]
    assert predictions[3].to_dict()["known"] is False
    result = model.evaluate(read(model, pairs))
    scores = result.scores()
    assert 0 <= scores["recall@1"] <= scores["recall@2"] <= scores["recall@5"] <= 1
    assert "candidates:4|distractors:random" in result.signatures()["mrr"]
    paired = result.paired("mrr")
    assert float(paired.metric(paired.references, paired.predictions)) == pytest.approx(scores["mrr"])
    assert paired.conditions["data.window"] == 6
    with pytest.raises(DataError, match="Unknown ranking metric 'recall@x'"):
        result.paired("recall@x")
    assert result.lines()[0] == "24 contexts, 24 examples"
    assert model.describe(2)


@pytest.mark.parametrize("kind", ALL)
def test_scores_do_not_depend_on_the_batch(kind: str, runs: dict[str, Path], pairs: Path) -> None:
    model = load(runs[kind])
    examples = [example for group in model.ranking_examples(read(model, pairs)) for example in group][:6]
    together = model.ranker.scores(examples)
    for example, scores in zip(examples, together, strict=True):
        assert model.ranker.scores([example])[0] == pytest.approx(scores, abs=1e-4)


@pytest.mark.parametrize("kind", ["dual", "bm25", "tfidf", "mixture"])
def test_index_search_equals_exhaustive_search(kind: str, runs: dict[str, Path]) -> None:
    model = load(runs[kind])
    assert isinstance(model, RetrievalTask)
    texts = [model.index.texts[i] for i in range(len(model.index))]
    context = model.to_example(CONTEXTS[0])
    responses = model.respond([context], ConverseOptions(n_best=len(texts)))[0]
    ranker = model.ranker
    if isinstance(ranker, MixedRanker):
        ranker = MixedRanker([r for r, _ in ranker.searchers()], [w for _, w in ranker.searchers()])
    exact = ranker.scores([RankingExample(context, tuple(texts))])[0]
    assert [one.score for one in responses] == pytest.approx(sorted(exact.tolist(), reverse=True), abs=1e-4)
    by_text = dict(zip(texts, exact.tolist(), strict=True))
    assert all(by_text[one.text] == pytest.approx(one.score, abs=1e-4) for one in responses)


def test_moved_run_loads(runs: dict[str, Path], tmp_path: Path) -> None:
    for kind in ("dual", "mixture"):
        before = [str(one) for one in load(runs[kind]).predict(CONTEXTS)]
        shutil.copytree(runs[kind], tmp_path / kind, symlinks=True)
        assert [str(one) for one in load(tmp_path / kind).predict(CONTEXTS)] == before
    checkpoint = next((tmp_path / "dual" / "checkpoints").iterdir())
    shutil.copytree(checkpoint, tmp_path / "apart")
    best = load(tmp_path / "apart")
    assert len(best.predict(CONTEXTS)) == len(CONTEXTS), "without the run's index it is made again"


def test_damaged_index_of_a_run_is_made_again(runs: dict[str, Path], tmp_path: Path) -> None:
    before = load(runs["dual"]).predict(CONTEXTS)
    shutil.copytree(runs["dual"], tmp_path / "run", symlinks=True)
    path = tmp_path / "run" / "index" / "vectors.npy"
    content = bytearray(path.read_bytes())
    content[-64:] = b"\x00" * 64
    path.write_bytes(content)
    assert load(tmp_path / "run").predict(CONTEXTS) == before


def test_index_matrix_is_memory_mapped(runs: dict[str, Path]) -> None:
    model = load(runs["dual"])
    assert isinstance(model, RetrievalTask)
    assert isinstance(model.index.part.matrix, np.memmap)  # type: ignore[attr-defined]


def test_mixture_likelihood_is_at_least_that_of_its_rankers(runs: dict[str, Path], pairs: Path) -> None:
    ranker = load(runs["mixture"]).ranker
    assert isinstance(ranker, MixedRanker)
    made = config(pairs, "mixture", model={"runs": ["a", "b"]})
    dev = Sources(TermTask, made).split().dev
    examples = [example for group in build_ranking_examples(dev, made.evaluation) for example in group]

    def nats(weights: np.ndarray) -> float:
        scored = [scores @ weights for scores in ranker.each(examples)]
        return float(np.mean([np.log(np.exp(scores - scores[0]).sum()) for scores in scored]))

    mixed = nats(np.array(ranker.weights))
    assert all(mixed < nats(np.eye(4)[k] * scale) + 0.01 for k in range(4) for scale in (0.5, 1.0, 2.0))


def test_mixture_without_retrieval_model_raises(runs: dict[str, Path], pairs: Path, tmp_path: Path) -> None:
    made = config(pairs, "mixture", model={"runs": [str(runs["generative"]), str(runs["seq2seq"])]})
    with pytest.raises(ConfigError, match="must include a run of kind dual"):
        train_run(made, tmp_path / "run", SilentReporter())


def test_index_clusters_reduce_the_responses(pairs: Path, tmp_path: Path) -> None:
    made = config(pairs, "dual", index={"clusters": 3}, training={"max_epochs": 1})
    train_run(made, tmp_path / "run", SilentReporter())
    model = load(tmp_path / "run")
    assert isinstance(model, RetrievalTask)
    assert len(model.index) == 3
    responses = {text for exchange in Sources(DualTask, made).split().train for text in exchange.responses}
    assert {model.index.texts[i] for i in range(3)} <= responses


def test_index_file_provides_the_responses(pairs: Path, tmp_path: Path) -> None:
    (tmp_path / "answers.txt").write_text("the cat\n\nthe  tea\nthe cat\n", encoding="utf-8")
    made = config(pairs, "bm25", index={"file": str(tmp_path / "answers.txt")})
    train_run(made, tmp_path / "run", SilentReporter())
    model = load(tmp_path / "run")
    prediction = model.predict(["tea"], ConverseOptions(n_best=9))[0]
    assert [one.response for one in prediction.n_best] == ["the tea", "the cat"]
    (tmp_path / "answers.txt").write_text("\n", encoding="utf-8")
    with pytest.raises(DataError, match="has no responses"):
        train_run(made, tmp_path / "none", SilentReporter())


@pytest.mark.parametrize("against", ["response", "context", "both"])
def test_term_ranker_compares_with_the_set_text(against: str, tmp_path: Path) -> None:
    path = tmp_path / "faq.tsv"
    path.write_text("when do you open\tat nine\nwhere are you\twhen the sun shines\nwho\tme\n", encoding="utf-8")
    made = config(path, "bm25", model={"against": against}, data={"dev": str(path)})
    train_run(made, tmp_path / "run", SilentReporter())
    model = load(tmp_path / "run")
    best = str(model.predict(["when do you close"])[0])
    assert best == ("when the sun shines" if against == "response" else "at nine")
    documents = {
        "response": ["at nine", "when the sun shines", "me"],
        "context": ["when do you open", "where are you", "who"],
        "both": ["when do you open at nine", "where are you when the sun shines", "who me"],
    }[against]
    assert isinstance(model, RetrievalTask)
    assert isinstance(model.ranker, TermRanker)
    matcher = model.ranker.matcher
    assert matcher.n == 3
    assert matcher.mean_length == pytest.approx(sum(len(text.split()) for text in documents) / 3)
    assert matcher.frequency == {w: sum(w in text.split() for text in documents) for w in " ".join(documents).split()}


@pytest.mark.parametrize("kind", ["dual", "generative"])
def test_resume_after_kill_gives_the_same_model(kind: str, pairs: Path, tmp_path: Path) -> None:
    made = config(pairs, kind)

    family = DualTask if kind == "dual" else GenerativeTask

    def make_task():
        return family.prepare(made, Sources(family, made), Origin(Randomness(SEED)))

    killed_anywhere_ends_the_same(make_task, made.training, tmp_path, kills=[2])


def test_training_starts_from_an_old_model(runs: dict[str, Path], pairs: Path, tmp_path: Path) -> None:
    made = config(pairs, "dual", training={"max_epochs": 1})
    train_run(made, tmp_path / "more", SilentReporter(), init_from=runs["dual"])
    other = config(pairs, "dual", model={"match": "dot"}, training={"max_epochs": 1})
    with pytest.raises(CheckpointError, match="the model must have the options of the one in"):
        train_run(other, tmp_path / "other", SilentReporter(), init_from=runs["dual"])
    with pytest.raises(CheckpointError, match="always created from scratch"):
        train_run(config(pairs, "bm25"), tmp_path / "x", SilentReporter(), init_from=runs["bm25"])


def test_dual_encoder_learns_the_topics(pairs: Path, tmp_path: Path) -> None:
    for loss in ("softmax", "binary"):
        made = config(
            pairs,
            "dual",
            model={"loss": loss, "negatives": 3, "dropout_hidden": 0.0},
            training={"max_epochs": 6, "patience": 0, "optimizer": "adam", "learning_rate": 0.1},
            evaluation={"candidates": 3},
            data={"dev": str(pairs)},
        )
        trained = train_run(made, tmp_path / loss, SilentReporter())
        assert trained.scores["recall@1"] > 0.6, f"{loss}: random ranking gives a third"


def test_word_vectors_extend_the_vocabulary(pairs: Path, tmp_path: Path) -> None:
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("3 4\ntea 1 0 0 0\nkettle 0.9 0.1 0 0\ncat 0 1 0 0\n", encoding="utf-8")
    embedding = {"d": 4, "mode": "static", "vectors": str(vectors)}
    made = config(pairs, "dual", model={"embedding": embedding, "match": "cosine"}, training={"max_epochs": 1})
    train_run(made, tmp_path / "run", SilentReporter())
    vectors.unlink()
    ranker = load(tmp_path / "run").ranker
    assert isinstance(ranker, DualRanker)
    assert "kettle" in ranker.encoding.vocabulary


def test_read_inputs_of_files_and_lines(runs: dict[str, Path], tmp_path: Path) -> None:
    model = load(runs["bm25"])
    path = tmp_path / "inputs"
    path.write_text("a __eot__ b\tignored\n\nc\n", encoding="utf-8")
    assert contexts_of(model, path) == [("a", "b"), (), ("c",)]
    path.write_text("Context\tResponse\na\tb\n\ncontext\n", encoding="utf-8")
    assert contexts_of(model, path) == [("a",), (), ("context",)], "the header is not a context"
    path.write_text("context\na\n", encoding="utf-8")
    assert contexts_of(model, path) == [("context",), ("a",)], "not a header"
    path.write_text(json.dumps({"turns": ["a", "b", "c"]}) + "\n", encoding="utf-8")
    assert contexts_of(model, path) == [("a",), ("a", "b")]
    assert contexts_of(with_format(model, "turns"), path) == [("a",), ("a", "b")]
    assert contexts_of(with_format(model, "text"), path) == [(path.read_text(encoding="utf-8").strip(),)]
    path.write_text('Context,Utterance,Distractor_0\n"a, b __eot__ c",d,e\n', encoding="utf-8")
    assert contexts_of(model, path) == [("a, b", "c")]
    for plain in ("\n\n", "{smile}\n", ""):
        path.write_text(plain, encoding="utf-8")
        assert contexts_of(model, path) == [tuple(line.split()) for line in plain.splitlines()]


def with_format(model: ConverseTask[Any], name: str) -> ConverseTask[Any]:
    changed = copy(model)
    data = model.config.data.model_copy(update={"input_format": name})
    changed.config = model.config.model_copy(update={"data": data})
    return changed


def test_read_inputs_by_the_context_column(pairs: Path, tmp_path: Path) -> None:
    path = tmp_path / "faq.csv"
    path.write_text("n,frage,antwort\n1,wann ist offen,um neun\n2,wo seid ihr,hier\n", encoding="utf-8")
    columns = {"context_column": "frage", "response_column": "antwort", "dev": str(path)}
    train_run(config(path, "bm25", data=columns), tmp_path / "run", SilentReporter())
    model = load(tmp_path / "run")
    assert contexts_of(model, path) == [("wann ist offen",), ("wo seid ihr",)]
    path.write_text("frage,n\nwo ist es,1\n,2\n", encoding="utf-8")
    assert contexts_of(model, path) == [("wo ist es",), ()], "responses may be missing, blank contexts are kept"
    assert contexts_of(model, pairs)[0] == ("hello number 0", "what about the tea ?"), "a file without this column"


def test_predictions_are_written_in_every_format(runs: dict[str, Path]) -> None:
    model = load(runs["bm25"])
    prediction = model.predict([("tea", "cat")], ConverseOptions(n_best=2, scores=True))[0]
    row = prediction.to_dict()
    assert list(row) == ["context", "response", "score", "known", "n_best"]
    assert row["context"] == ["tea", "cat"]
    assert [one["response"] for one in row["n_best"]] == prediction.to_text("text").splitlines()
    lines = list(PredictionWriter("tsv").lines(prediction))
    assert lines[0].split("\t") == ["tea __eot__ cat", str(prediction), f"{prediction.score:.4f}"]
    assert len(lines) == 2
    assert next(PredictionWriter("tsv").lines(model.predict(["tea"])[0])).count("\t") == 1, "no scores"
    generated = load(runs["generative"]).predict(["tea"])[0].to_dict()
    assert list(generated) == ["context", "response", "log_prob", "truncated", "known"]


@pytest.mark.parametrize("kind", ["bm25", "generative"])
def test_blank_context_has_no_response(kind: str, runs: dict[str, Path]) -> None:
    model = load(runs[kind])
    for options in (model.options_class(scores=True), model.options_class(n_best=2, scores=True)):
        prediction = model.predict(["  "], options)[0]
        assert str(prediction) == ""
        assert not model.warnings(prediction, options)
        row = prediction.to_dict()
        assert row["response"] is None
        assert row["log_prob" if kind == "generative" else "score"] is None
        assert [line.strip() for line in PredictionWriter("tsv").lines(prediction)] == [""]
        assert prediction.to_text("text") == ""


def test_network_is_the_one_that_predicts(runs: dict[str, Path]) -> None:
    for kind in ("dual", "mixture", "generative"):
        the_network_answers(load(runs[kind]), [("tea", "cat")])
    with pytest.raises(DataError, match="A model of kind 'bm25' has no network: it is fitted"):
        _ = load(runs["bm25"]).network


def test_predict_needs_a_list(runs: dict[str, Path]) -> None:
    with pytest.raises(DataError, match="predict must get a list, got one text: 'tea'"):
        load(runs["bm25"]).predict("tea")


def test_evaluate_without_correct_responses_raises(runs: dict[str, Path]) -> None:
    model = load(runs["bm25"])
    with pytest.raises(DataError, match="No context has a correct response to score"):
        model.evaluate([Exchange(("tea",), (), SourceLocation("x", 1), wrong=("no",))])


def test_long_contexts_are_truncated_to_the_window(runs: dict[str, Path]) -> None:
    model = load(runs["bm25"])
    turns = ("train station", *["zzz"] * 6)
    prediction = model.predict([turns])[0]
    assert not prediction.known, "only the last six turns are read"
    assert prediction.context == turns, "the context is shown as it was given"


def test_config_with_inconsistent_options_raises(pairs: Path) -> None:
    for kind, sections, words in (
        ("bm25", {"index": {"clusters": 3}}, "model.kind must be 'dual' if index.clusters = 3 is set"),
        ("generative", {"index": {"file": "x"}}, "index.file applies only to models that retrieve"),
        (
            "bm25",
            {"index": {"file": "x"}, "model": {"against": "context"}},
            "must not be 'context' if index.file is set",
        ),
        ("dual", {"training": {"metric": "perplexity"}}, "Unknown training.metric 'perplexity' of this model"),
        ("dual", {"data": {"folds": 3}}, "folds"),
        ("dual", {"data": {"text_column": "q"}}, "text_column"),
        ("dual", {"data": {"context_column": "q"}}, "Only one of data.context_column and data.response_column is set"),
        ("mixture", {"model": {"runs": ["a"]}}, "at least 2 run folders"),
        ("mixture", {"model": {"runs": ["a", "b"], "weights": [1.0]}}, "must have 2 values"),
    ):
        with pytest.raises(ConfigError, match=words):
            config(pairs, kind, **sections)
