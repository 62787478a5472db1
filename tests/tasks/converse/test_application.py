"""Train, resume, load, respond and evaluate, for every model kind."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from catena.data.dialogue import Exchange
from catena.data.examples import SourceLocation
from catena.errors import CheckpointError, ConfigError, DataError
from catena.randomness import Randomness
from catena.tasks.application import PredictOptions, ReadOptions
from catena.tasks.converse.application import ConverseApplication
from catena.tasks.converse.dataset import prepare
from catena.tasks.converse.predictor import GUESSED, ConversePredictor, RetrievalPredictor
from catena.tasks.converse.questions import RankingExample, build_ranking_examples
from catena.tasks.converse.rankers import DualRanker, MixedRanker, TermRanker
from catena.training.report import SilentReporter
from tests.laws.blank_laws import blank_is_answered_by_nothing
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
        trained = ConverseApplication().train(made, folder / kind, SilentReporter())
        assert trained.test_scores["mrr"] > 0
        found[kind] = folder / kind
    names = [str(found[kind]) for kind in ("dual", "tfidf", "bm25", "generative")]
    made = config(pairs, "mixture", model={"runs": names})
    ConverseApplication().train(made, folder / "mixture", SilentReporter())
    return {**found, "mixture": folder / "mixture"}


def load(folder: Path) -> ConversePredictor:
    found = ConverseApplication().load(folder, "cpu")
    assert isinstance(found, ConversePredictor)
    return found


ALL = [*KINDS, "mixture"]
CONTEXTS = ["hello __eot__ what about the cat ?", "", "tea 你好 ☕", "zzz", "a\u2028b"]


@pytest.mark.parametrize("kind", ALL)
def test_every_model_kind_responds_and_is_evaluated(kind: str, runs: dict[str, Path], pairs: Path) -> None:
    model = load(runs[kind])
    replies = model.predict(CONTEXTS, PredictOptions(n_best=2, scores=True))
    assert len(replies) == len(CONTEXTS)
    assert str(replies[1]) == "", "nothing is said to nothing"
    for reply in (replies[0], replies[3]):
        scores = [found.score for found in reply.responses]
        assert len(scores) == 2
        assert scores == sorted(scores, reverse=True)
    assert [reply.known for reply in replies] == [True, False, True, False, True]
    assert [GUESSED in model.remarks(reply) for reply in replies] == [False, False, False, True, False]
    assert json.loads(model.write(replies[3], "zzz", "jsonl"))["known"] is False
    report = model.evaluate(pairs)
    assert 0 <= report.scores["recall@1"] <= report.scores["recall@2"] <= report.scores["recall@5"] <= 1
    assert "candidates:4|distractors:random" in report.signatures["mrr"]
    answers = model.answers(pairs, "mrr")
    assert float(answers.measure(answers.right, answers.given)) == pytest.approx(report.scores["mrr"])
    assert model.describe(2)


@pytest.mark.parametrize("kind", ALL)
def test_predict_does_not_depend_on_the_batch(kind: str, runs: dict[str, Path], pairs: Path) -> None:
    model = load(runs[kind])
    questions = [question for group in model.questions(pairs)[0] for question in group][:6]
    together = model.ranker.scores(questions)
    for question, found in zip(questions, together, strict=True):
        assert model.ranker.scores([question])[0] == pytest.approx(found, abs=1e-4)


@pytest.mark.parametrize("kind", ["dual", "bm25", "tfidf", "mixture"])
def test_index_search_equals_exhaustive_search(kind: str, runs: dict[str, Path]) -> None:
    model = load(runs[kind])
    assert isinstance(model, RetrievalPredictor)
    texts = [model.index.texts[i] for i in range(len(model.index))]
    context = model.exchange(CONTEXTS[0])
    found = model.reply([context], PredictOptions(n_best=len(texts)))[0]
    ranker = model.ranker
    if kind == "mixture":
        ranker = type(ranker)([r for r, _ in ranker.searchers()], [w for _, w in ranker.searchers()])
    exact = ranker.scores([RankingExample(context, tuple(texts))])[0]
    assert [one.score for one in found] == pytest.approx(sorted(exact.tolist(), reverse=True), abs=1e-4)
    by_text = dict(zip(texts, exact.tolist(), strict=True))
    assert all(by_text[one.text] == pytest.approx(one.score, abs=1e-4) for one in found)


def test_moved_run_loads(runs: dict[str, Path], tmp_path: Path) -> None:
    for kind in ("dual", "mixture"):
        before = [str(reply) for reply in load(runs[kind]).predict(CONTEXTS)]
        shutil.copytree(runs[kind], tmp_path / kind, symlinks=True)
        assert [str(reply) for reply in load(tmp_path / kind).predict(CONTEXTS)] == before
    alone = next((tmp_path / "dual" / "checkpoints").iterdir())
    shutil.copytree(alone, tmp_path / "alone")
    best = load(tmp_path / "alone")
    assert len(best.predict(CONTEXTS)) == len(CONTEXTS), "without the run's index it is made again"


def test_index_matrix_is_memory_mapped(runs: dict[str, Path]) -> None:
    model = load(runs["dual"])
    assert isinstance(model, RetrievalPredictor)
    assert isinstance(model.index.part.matrix, np.memmap)  # type: ignore[attr-defined]


def test_mixture_likelihood_is_at_least_that_of_its_rankers(runs: dict[str, Path], pairs: Path) -> None:
    ranker = load(runs["mixture"]).ranker
    assert isinstance(ranker, MixedRanker)
    made = config(pairs, "mixture", model={"runs": ["a", "b"]})
    questions = [q for group in build_ranking_examples(prepare(made).dev, made.evaluation, "pairs") for q in group]

    def nats(weights: np.ndarray) -> float:
        scored = [scores @ weights for scores in ranker.each(questions)]
        return float(np.mean([np.log(np.exp(scores - scores[0]).sum()) for scores in scored]))

    mixed = nats(np.array(ranker.weights))
    assert all(mixed < nats(np.eye(4)[k] * scale) + 0.01 for k in range(4) for scale in (0.5, 1.0, 2.0))


def test_mixture_without_retrieval_model_raises(runs: dict[str, Path], pairs: Path, tmp_path: Path) -> None:
    made = config(pairs, "mixture", model={"runs": [str(runs["generative"]), str(runs["seq2seq"])]})
    with pytest.raises(ConfigError, match="must include a run of kind dual"):
        ConverseApplication().train(made, tmp_path / "run", SilentReporter())


def test_index_clusters_reduce_the_responses(pairs: Path, tmp_path: Path) -> None:
    made = config(pairs, "dual", index={"clusters": 3}, training={"max_epochs": 1})
    ConverseApplication().train(made, tmp_path / "run", SilentReporter())
    model = load(tmp_path / "run")
    assert isinstance(model, RetrievalPredictor)
    assert len(model.index) == 3
    data = prepare(made)
    assert {model.index.texts[i] for i in range(3)} <= set(data.responses())


def test_index_file_provides_the_responses(pairs: Path, tmp_path: Path) -> None:
    (tmp_path / "answers.txt").write_text("the cat\n\nthe  tea\nthe cat\n", encoding="utf-8")
    made = config(pairs, "bm25", index={"file": str(tmp_path / "answers.txt")})
    ConverseApplication().train(made, tmp_path / "run", SilentReporter())
    model = load(tmp_path / "run")
    assert [found.text for found in model.predict(["tea"], PredictOptions(n_best=9))[0].responses] == [
        "the tea",
        "the cat",
    ]
    (tmp_path / "answers.txt").write_text("\n", encoding="utf-8")
    with pytest.raises(DataError, match="has no responses"):
        ConverseApplication().train(made, tmp_path / "none", SilentReporter())


@pytest.mark.parametrize("against", ["response", "context", "both"])
def test_term_ranker_compares_with_the_set_text(against: str, tmp_path: Path) -> None:
    path = tmp_path / "faq.tsv"
    path.write_text("when do you open\tat nine\nwhere are you\twhen the sun shines\nwho\tme\n", encoding="utf-8")
    made = config(path, "bm25", model={"against": against}, data={"dev": str(path)})
    ConverseApplication().train(made, tmp_path / "run", SilentReporter())
    model = load(tmp_path / "run")
    best = str(model.predict(["when do you close"])[0])
    assert best == ("when the sun shines" if against == "response" else "at nine")
    documents = {
        "response": ["at nine", "when the sun shines", "me"],
        "context": ["when do you open", "where are you", "who"],
        "both": ["when do you open at nine", "where are you when the sun shines", "who me"],
    }[against]
    assert isinstance(model, RetrievalPredictor)
    assert isinstance(model.ranker, TermRanker)
    matcher = model.ranker.matcher
    assert matcher.n == 3
    assert matcher.mean_length == pytest.approx(sum(len(text.split()) for text in documents) / 3)
    assert matcher.frequency == {w: sum(w in text.split() for text in documents) for w in " ".join(documents).split()}


@pytest.mark.parametrize("kind", ["dual", "generative"])
def test_resume_after_kill_gives_the_same_model(kind: str, pairs: Path, tmp_path: Path) -> None:
    made = config(pairs, kind)

    def make_task():
        randomness = Randomness(SEED)
        return ConverseApplication().task(made, prepare(made), torch.device("cpu"), randomness)

    killed_anywhere_ends_the_same(make_task, made.training, tmp_path, kills=[2])


def test_training_starts_from_an_old_model(runs: dict[str, Path], pairs: Path, tmp_path: Path) -> None:
    made = config(pairs, "dual", training={"max_epochs": 1})
    ConverseApplication().train(made, tmp_path / "more", SilentReporter(), start_from=runs["dual"])
    other = config(pairs, "dual", model={"match": "dot"}, training={"max_epochs": 1})
    with pytest.raises(CheckpointError, match="the model must have the options of the one in"):
        ConverseApplication().train(other, tmp_path / "other", SilentReporter(), start_from=runs["dual"])
    with pytest.raises(CheckpointError, match="always created from scratch"):
        ConverseApplication().train(config(pairs, "bm25"), tmp_path / "x", SilentReporter(), start_from=runs["bm25"])


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
        trained = ConverseApplication().train(made, tmp_path / loss, SilentReporter())
        assert trained.scores["recall@1"] > 0.6, f"{loss}: random ranking gives a third"


def test_word_vectors_extend_the_vocabulary(pairs: Path, tmp_path: Path) -> None:
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("3 4\ntea 1 0 0 0\nkettle 0.9 0.1 0 0\ncat 0 1 0 0\n", encoding="utf-8")
    embedding = {"d": 4, "mode": "static", "vectors": str(vectors)}
    made = config(pairs, "dual", model={"embedding": embedding, "match": "cosine"}, training={"max_epochs": 1})
    ConverseApplication().train(made, tmp_path / "run", SilentReporter())
    vectors.unlink()
    ranker = load(tmp_path / "run").ranker
    assert isinstance(ranker, DualRanker)
    assert "kettle" in ranker.encoding.vocabulary


def test_read_inputs_of_files_and_lines(runs: dict[str, Path], tmp_path: Path) -> None:
    model = load(runs["bm25"])
    path = tmp_path / "inputs"
    path.write_text("a __eot__ b\tignored\n\nc\n", encoding="utf-8")
    assert list(model.read_inputs(path)) == ["a __eot__ b", "", "c"]
    assert list(model.items_of_lines(iter(["Context\tResponse", "a\tb", "context"]))) == ["a", "context"]
    assert list(model.items_of_lines(iter(["context", "a"]))) == ["context", "a"], "not a header"
    path.write_text(json.dumps({"turns": ["a", "b", "c"]}) + "\n", encoding="utf-8")
    for reading in (ReadOptions(), ReadOptions(format="turns")):
        assert [e.context for e in model.read_inputs(path, reading)] == [("a",), ("a", "b")]
    assert list(model.read_inputs(path, ReadOptions(format="text"))) == [path.read_text(encoding="utf-8").strip()]
    path.write_text('Context,Utterance,Distractor_0\n"a, b __eot__ c",d,e\n', encoding="utf-8")
    assert [e.context for e in model.read_inputs(path)] == [("a, b", "c")]
    for plain in ("\n\n", "{smile}\n", ""):
        path.write_text(plain, encoding="utf-8")
        assert list(model.read_inputs(path)) == plain.splitlines()
    reply = model.predict([("tea", "cat")], PredictOptions(n_best=2, scores=True))[0]
    item = Exchange(("tea", "cat"), (), SourceLocation("x", 1))
    row = json.loads(model.write(reply, item, "jsonl"))
    assert row["context"] == ["tea", "cat"]
    assert len(row["responses"]) == 2
    assert model.write(reply, item, "tsv").splitlines()[0].split("\t")[:2] == ["tea __eot__ cat", str(reply)]
    assert model.write(model.predict([""])[0], "", "tsv") == "\t"
    blank_is_answered_by_nothing(model, "responses", "score")
    for kind in ("dual", "mixture"):
        the_network_answers(load(runs[kind]), [("tea", "cat")])
    with pytest.raises(DataError, match="a model of the task converse has no network here: it was counted"):
        _ = model.network
    with pytest.raises(DataError, match="items must be a list of contexts"):
        model.predict("tea")
    with pytest.raises(DataError, match="Unknown ranking metric 'recall@x'"):
        model.answers(path, "recall@x")
    assert isinstance(model.ranker, TermRanker)


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
        ("dual", {"data": {"folds": 3}}, "data.folds is not supported"),
        ("dual", {"data": {"text_column": "q"}}, "'q' is not supported for conversations. Set data.context_column"),
        ("dual", {"data": {"context_column": "q"}}, "Only one of data.context_column and data.response_column is set"),
        ("mixture", {"model": {"runs": ["a"]}}, "at least 2 run folders"),
        ("mixture", {"model": {"runs": ["a", "b"], "weights": [1.0]}}, "must have 2 values"),
    ):
        with pytest.raises(ConfigError, match=words):
            config(pairs, kind, **sections)
