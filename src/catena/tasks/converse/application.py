"""The conversation task: train, resume and load."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch

from catena import config as configs
from catena.checkpoint import CONFIG, Checkpoint, open_checkpoint
from catena.config import Config, to_toml
from catena.data.reading import ReadCounter
from catena.data.special_tokens import TURN_SYMBOL
from catena.data.tokenize import load_tokenizer
from catena.embeddings.table import build_embedding
from catena.errors import ConfigError
from catena.randomness import Randomness
from catena.retrieval.config import BM25Config, DualEncoderConfig, TfidfConfig
from catena.retrieval.dual import DualEncoder
from catena.retrieval.mixing import fit_weights
from catena.retrieval.terms import learn_terms, load_terms
from catena.tasks.application import NO_LIMITS, Predictor, TrainResult
from catena.tasks.converse.config import FITTED, WHAT_NEXT, WRITES, ConverseConfig, RankerMixtureConfig
from catena.tasks.converse.dataset import ConverseDataset, prepare
from catena.tasks.converse.dual_task import DualTask
from catena.tasks.converse.encoding import (
    TOKENIZER,
    DualEncoding,
    distinct_texts,
    inverse_document_frequency,
    learn_tokenizer,
    learn_vocabulary,
    load_dual_encoding,
    word_vectors,
)
from catena.tasks.converse.index import INDEX, build_index, collect_responses, load_index, load_texts
from catena.tasks.converse.predictor import ConversePredictor, RetrievalPredictor
from catena.tasks.converse.questions import build_ranking_examples, compute_scores
from catena.tasks.converse.rankers import DualRanker, MixedRanker, Ranker, RetrievalRanker, TermRanker, comparison_text
from catena.tasks.fitted import FitReporter, FitResult
from catena.tasks.looped import LoopedApplication, NeuralTask, check_same_model_kind
from catena.tasks.machine import choose_device
from catena.tasks.pretrained import Pretrained
from catena.training.report import Reporter
from catena.training.run import RunFolder

PARTS, ABOUT = "parts", "about.json"


class ConverseApplication(LoopedApplication[ConverseConfig, ConverseDataset]):
    """The task ``converse``, which retrieves or generates responses."""

    settings = ConverseConfig

    def prepare(
        self, config: ConverseConfig, randomness: Randomness, old: Path | None, start: Pretrained | None
    ) -> ConverseDataset:
        if old is not None:
            check_same_model_kind(old, configs.load(ConverseConfig, old / CONFIG), config)
        data = prepare(config)
        data.old = old
        return data

    def dropped(self, data: ConverseDataset) -> ReadCounter:
        return data.tally

    def task(
        self, config: ConverseConfig, data: ConverseDataset, device: torch.device, randomness: Randomness
    ) -> NeuralTask:
        randomness.seed_torch("weights")
        if isinstance(config.model, DualEncoderConfig):
            return new_dual(config, data, device, randomness)
        from catena.tasks.converse.generative import new_generative

        return new_generative(config, data, device, randomness)

    def fits(self, config: ConverseConfig) -> bool:
        return config.model.kind in FITTED

    def fit(
        self, config: ConverseConfig, data: ConverseDataset, run: RunFolder, randomness: Randomness, reporter: Reporter
    ) -> TrainResult:
        fitting = FitReporter(run, reporter, data.lines)
        dev = _questions(config, data, "dev")
        ranker: RetrievalRanker
        folders: list[Path] = []
        if isinstance(config.model, RankerMixtureConfig):
            folders = [open_checkpoint(Path(one)).folder for one in config.model.runs]
            ranker = self._mixed(config.model, folders, dev, fitting)
            config = config.model_copy(
                update={"model": config.model.model_copy(update={"weights": tuple(ranker.weights)})}
            )
        else:
            ranker = _terms(config, data)
        test = _questions(config, data, "test")
        scores = compute_scores(dev, ranker.standings(dev), config.evaluation)
        on_test = compute_scores(test, ranker.standings(test), config.evaluation) if test else {}
        index = build_index(config, ranker, *collect_responses(config, data))

        def save(folder: Path) -> None:
            (folder / CONFIG).write_text(to_toml(config), encoding="utf-8")
            ranker.save(folder)
            index.save(folder / INDEX)
            for i, part in enumerate(folders):
                shutil.copytree(part, folder / PARTS / str(i))

        return fitting.keep(FitResult(scores, config.evaluation.ranking[0], save, len(data.taught), on_test), WHAT_NEXT)

    def _mixed(
        self, settings: RankerMixtureConfig, folders: list[Path], dev: list, fitting: FitReporter
    ) -> MixedRanker:
        rankers = [_ranker_of(folder) for folder in folders]
        if not any(isinstance(ranker, RetrievalRanker) for ranker in rankers):
            raise ConfigError(
                f"model.runs must include a run of kind dual, tfidf or bm25, got only generative models: "
                f"{list(settings.runs)}. Add such a run."
            )
        ranker = MixedRanker(rankers, settings.weights or [0.0] * len(rankers))
        if not settings.weights:
            questions = [question for group in dev for question in group]
            weights, loss = fit_weights(ranker.each(questions), settings.penalty)
            ranker.weights = weights.tolist()
            fitting.note(f"weights fitted on {len(questions):,} dev examples: {loss:.4f} nats per example")
        named = zip(settings.runs, ranker.weights, strict=True)
        fitting.note("weights: " + ", ".join(f"{Path(name).name} {weight:.4f}" for name, weight in named))
        return ranker

    def train(
        self,
        config: Config,
        folder: Path,
        reporter: Reporter,
        *,
        start_from: Path | None = None,
        overwrite: bool = False,
        command: Sequence[str] = (),
    ) -> TrainResult:
        trained = super().train(config, folder, reporter, start_from=start_from, overwrite=overwrite, command=command)
        if not trained.interrupted:
            keep_index(trained.folder)
        return trained

    def filled_keys(self, config: ConverseConfig) -> Sequence[str]:
        return ("model.weights",) if isinstance(config.model, RankerMixtureConfig) else ()

    def resume(self, folder: Path, reporter: Reporter, limits: Mapping[str, object] = NO_LIMITS) -> TrainResult:
        trained = super().resume(folder, reporter, limits)
        if not trained.interrupted:
            keep_index(trained.folder)
        return trained

    def fit_to_time(self, config: Config) -> tuple[Config, list[str]]:
        assert isinstance(config, ConverseConfig)
        values = {**config.model_dump(exclude={"model", "training"}), "model": BM25Config(against="both")}
        return ConverseConfig.model_validate(values), ["chosen: BM25, which needs seconds for any time limit"]

    def load(self, folder: Path, device: str = "auto") -> Predictor:
        return load_predictor(folder, choose_device(device))


# --- building models --------------------------------------------------------------------------------------------------


def new_dual(config: ConverseConfig, data: ConverseDataset, device: torch.device, randomness: Randomness) -> DualTask:
    """The training task of a new dual encoder, with a vocabulary from train and word vectors, or from an old model."""
    settings = config.model
    assert isinstance(settings, DualEncoderConfig)
    if data.old is not None:
        encoding = load_dual_encoding(data.old, config.data.max_length)
    else:
        tokenizer = learn_tokenizer(config, data)
        vocabulary = learn_vocabulary(
            config, tokenizer, distinct_texts(data.train), (TURN_SYMBOL,), settings.embedding.vectors
        )
        encoding = DualEncoding(tokenizer, vocabulary, config.data.max_length)
        data.lines += vocabulary.notes()
    symbols = encoding.vocabulary.symbols
    matrix, known = word_vectors(settings.embedding, encoding.vocabulary, read=True)
    if known is not None:
        data.lines.append(f"{settings.embedding.vectors}: vectors for {int(known.sum()):,} of {len(symbols):,} words")
    embedding = build_embedding(settings.embedding, len(symbols), matrix=matrix, known=known)
    rarity = inverse_document_frequency(encoding.vocabulary, encoding.tokenizer, distinct_texts(data.train))
    model = DualEncoder(settings, embedding, torch.from_numpy(rarity))
    return DualTask(config, data, encoding, model, device, randomness)


def _terms(config: ConverseConfig, data: ConverseDataset) -> TermRanker:
    """A ranker whose term weights are counted on the indexed texts: responses, contexts or both."""
    settings = config.model
    assert isinstance(settings, TfidfConfig | BM25Config)
    tokenizer = learn_tokenizer(config, data)
    texts = data.responses()
    if isinstance(settings, TfidfConfig):
        texts = [*texts, *(" ".join(exchange.context) for exchange in data.train)]
    elif settings.against != "response":
        texts = [
            comparison_text(settings.against, *pair) for pair in zip(*collect_responses(config, data), strict=True)
        ]
    matcher = learn_terms(settings, (tokenizer.tokens(text) for text in texts))
    return TermRanker(tokenizer, matcher, settings)


def _questions(config: ConverseConfig, data: ConverseDataset, name: str) -> list:
    part = data.dev if name == "dev" else data.test
    format = data.formats.get(name, data.formats["train"])
    return build_ranking_examples(part, config.evaluation, format, data.responses()) if part else []


# --- saving and loading -----------------------------------------------------------------------------------------------


def keep_index(run: Path) -> None:
    """Save the response index of the best checkpoint of a dual encoder in its run folder."""
    checkpoint = open_checkpoint(run)
    config = configs.load(ConverseConfig, checkpoint.folder / CONFIG)
    if not isinstance(config.model, DualEncoderConfig):
        return
    ranker = _ranker_of(checkpoint.folder)
    assert isinstance(ranker, RetrievalRanker)
    texts, contexts = load_texts(checkpoint.folder / INDEX)
    index = build_index(config, ranker, list(texts), list(contexts))
    shutil.rmtree(run / INDEX, ignore_errors=True)
    index.save(run / INDEX)
    about = {"checkpoint": checkpoint.folder.name}
    (run / INDEX / ABOUT).write_text(json.dumps(about) + "\n", encoding="utf-8")


def load_predictor(folder: Path, device: torch.device) -> ConversePredictor:
    """Load a trained conversation model from a run folder or checkpoint folder."""
    checkpoint = open_checkpoint(folder)
    config = configs.load(ConverseConfig, checkpoint.folder / CONFIG)
    if config.model.kind in WRITES:
        from catena.tasks.converse.generative import load_generative

        return load_generative(config, checkpoint, device)
    ranker = _ranker_of(checkpoint.folder, device)
    assert isinstance(ranker, RetrievalRanker)
    if not isinstance(config.model, DualEncoderConfig):
        return RetrievalPredictor(config, ranker, load_index(ranker, checkpoint.folder / INDEX))
    kept = checkpoint.folder.parent.parent / INDEX
    if _belongs(kept, checkpoint):
        return RetrievalPredictor(config, ranker, load_index(ranker, kept))
    texts, contexts = load_texts(checkpoint.folder / INDEX)
    return RetrievalPredictor(config, ranker, build_index(config, ranker, list(texts), list(contexts)))


def _belongs(kept: Path, checkpoint: Checkpoint) -> bool:
    """Whether an index was built by this checkpoint."""
    try:
        return json.loads((kept / ABOUT).read_text(encoding="utf-8"))["checkpoint"] == checkpoint.folder.name
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _ranker_of(folder: Path, device: torch.device | None = None) -> Ranker:
    """The ranker of a checkpoint folder."""
    device = device or torch.device("cpu")
    config = configs.load(ConverseConfig, folder / CONFIG)
    settings = config.model
    if isinstance(settings, TfidfConfig | BM25Config):
        return TermRanker(load_tokenizer(folder / TOKENIZER), load_terms(settings, folder), settings)
    if isinstance(settings, RankerMixtureConfig):
        parts = [_ranker_of(folder / PARTS / str(i), device) for i in range(len(settings.runs))]
        return MixedRanker(parts, settings.weights)
    if isinstance(settings, DualEncoderConfig):
        encoding = load_dual_encoding(folder, config.data.max_length)
        n = len(encoding.vocabulary)
        matrix, known = word_vectors(settings.embedding, encoding.vocabulary, read=False)
        embedding = build_embedding(settings.embedding, n, matrix=matrix, known=known)
        model = DualEncoder(settings, embedding, torch.from_numpy(np.zeros(n, np.float32)))
        open_checkpoint(folder).load_into(model)
        return DualRanker(encoding, model.to(device).eval(), device, config.evaluation.texts_at_once)
    from catena.tasks.converse.generative import load_generative

    return load_generative(config, open_checkpoint(folder), device).ranker
