"""Train and evaluate BiDAF on squad_small: several models and seeds in parallel processes, resumable.

    python benchmarks/train_reading.py DATA --out runs/reading --models glove random no_c2q no_words --seeds 1 2 3
    python benchmarks/train_reading.py DATA --out runs/reading --models v2 v2_extra --seeds 1 2 3 --parallel 3

DATA is the folder squad_small. Each run writes a line for each epoch, a checkpoint and, at the end, a result with test
scores of the epoch with the best dev F1, into OUT/MODEL-SEED; a second call continues from the checkpoints and skips
what is finished. ``--minutes`` stops all runs in time; with ``--finish`` the learning rate falls with the time, so that
every run ends by then with a result. Models:

glove          GloVe vectors, frozen; words outside the file trained
random         trained vectors only
no_c2q no_q2c no_words no_characters     ablations of glove
conditioned    glove with the end that reads the expected start
shared         glove trained with one softmax over the paragraph and another one of its article
v2 v2_extra    no answer: dev-v2.0.json without the test titles; the same with the questions of train.json
v2_later       v2_extra, whose first epochs (--answerable) have no questions without an answer; with --distractors, a
               part of the answerable questions is read later with another paragraph of the article, as unanswerable
v2_held        v2_later without the questions of --held articles, for fitting when there is no answer

Runs of v2 write the best spans of the held, dev and test questions to spans.json (see fit_no_answer.py).

Runs of glove and shared also answer the test questions from a folder of 2,067 paragraphs (k = 1, 5, 10).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import pickle
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from catena.data.batches import BatchPlan
from catena.data.config import BatchConfig, VocabularyConfig
from catena.data.readers.questions import QuestionExample, read_questions
from catena.embeddings.config import EmbeddingConfig, NoCharacterConfig
from catena.encoders.config import RecurrentConfig
from catena.errors import DataError
from catena.metrics.reading import answer_f1_measure, answer_report
from catena.tasks.read.answers import AnswerFinder, ReadingOptions
from catena.tasks.read.build import build_bidaf
from catena.tasks.read.config import BiDAFConfig
from catena.tasks.read.data import AnswerCounter, QuestionSet, ReadingBatch, TrainingRows, WindowRows
from catena.tasks.read.encoding import ReadingEncoding, read_frozen_vectors
from catena.tasks.read.folder import FolderReader
from catena.tasks.read.model import BiDAF, span_loss
from catena.tasks.read.ranking import Paragraph, ParagraphRanker, ParagraphTermRanker
from catena.tasks.read.spans import fit_no_answer_threshold
from catena.training.average import MovingAverage, using

MODELS = (
    "glove", "random", "no_c2q", "no_q2c", "no_words", "no_characters", "conditioned", "shared", "v2", "v2_extra",
    "v2_later", "v2_held",
)  # fmt: skip
LATER = ("v2_later", "v2_held")
KS = (1, 5, 10)
RESERVE = 40.0
"""Seconds of the time limit for the last evaluation, with ``--finish``."""


# --- data -------------------------------------------------------------------------------------------------------------


@dataclass
class Data:
    """Everything that the runs of one model need; pickled once for all of them."""

    encoding: ReadingEncoding
    vectors: np.ndarray | None
    train: QuestionSet
    rows: TrainingRows
    dev: QuestionSet
    test: QuestionSet
    held: QuestionSet
    paragraphs: list[str]
    ranks: dict[str, tuple[np.ndarray, np.ndarray]]


class KnownRanks(ParagraphRanker):
    """The ranks of known questions, computed once for all runs."""

    def __init__(self, ranks: dict[str, tuple[np.ndarray, np.ndarray]]) -> None:
        self.ranks = ranks

    def rank(self, questions: Sequence[str], k: int) -> tuple[np.ndarray, np.ndarray]:
        scores, indices = zip(*(self.ranks[question] for question in questions), strict=True)
        return np.stack(scores)[:, :k], np.stack(indices)[:, :k]


def prepare(model: str, folder: Path, options: argparse.Namespace) -> Data:
    """Read and encode the data of a model."""
    train, dev, test = load_parts(model, folder)
    held: list[QuestionExample] = []
    if model == "v2_held":
        train, held = hold_articles(train, folder, options.held)
    if options.limit:
        train = sorted(train, key=lambda e: len(e.context))[: options.limit]
        dev, test, held = dev[: options.limit], test[: options.limit], held[: options.limit]
    words: list[str] = []
    vectors = None
    if model not in ("random", "no_words"):
        words, vectors = read_frozen_vectors(folder / "glove.100d.txt")
    texts = [*dict.fromkeys(e.context for e in train), *(e.question for e in train)]
    minimum = VocabularyConfig(min_count=options.min_count)
    encoding = ReadingEncoding.count(texts, vocabulary=minimum, pretrained=words)
    counter = AnswerCounter()
    encoded = QuestionSet(encoding, train, counter)
    print(model, *counter.sentences(), sep="; ", flush=True)
    sets = [QuestionSet(encoding, part) for part in (dev, test, held)]
    paragraphs, ranks = load_folder(folder, dev, test) if model in ("glove", "shared") else ([], {})
    return Data(encoding, vectors, encoded, TrainingRows(encoded), *sets, paragraphs, ranks)


def load_parts(model: str, folder: Path) -> tuple[list[QuestionExample], list[QuestionExample], list[QuestionExample]]:
    """Train, dev and test questions of a model."""
    train, dev, test = (read_questions(folder / f"{name}.json") for name in ("train", "dev", "test"))
    if not model.startswith("v2"):
        return train, dev, test
    second = read_questions(folder / "dev-v2.0.json")
    of_dev, of_test = ({e.title for e in part} for part in (dev, test))
    own = [e for e in second if e.title not in of_dev | of_test]
    if model in ("v2_extra", "v2_later", "v2_held"):
        ids = {e.id for e in own}
        own += [e for e in train if e.id not in ids]
    return own, [e for e in second if e.title in of_dev], [e for e in second if e.title in of_test]


def hold_articles(
    train: Sequence[QuestionExample], folder: Path, n: int
) -> tuple[list[QuestionExample], list[QuestionExample]]:
    """The questions of all articles except ``n`` of SQuAD 2.0, chosen by a hash, and the questions of those."""
    second = {e.id for e in read_questions(folder / "dev-v2.0.json")}
    titles = {e.title for e in train if e.id in second}
    chosen = sorted(titles, key=lambda title: hashlib.sha256(title.encode()).hexdigest())[:n]
    rest = [e for e in train if e.title not in chosen]
    return rest, [e for e in train if e.title in chosen and e.id in second]


def load_folder(
    folder: Path, dev: Sequence[QuestionExample], test: Sequence[QuestionExample]
) -> tuple[list[str], dict[str, tuple[np.ndarray, np.ndarray]]]:
    """The paragraphs of the whole development set, and their ranks for the dev and test questions."""
    paragraphs = list(dict.fromkeys(e.context for e in read_questions(folder / "dev-v1.1.json")))
    ranker = ParagraphTermRanker(paragraphs)
    questions = list(dict.fromkeys(e.question for e in (*dev, *test)))
    scores, indices = ranker.rank(questions, max(KS))
    return paragraphs, {q: (scores[i], indices[i]) for i, q in enumerate(questions)}


# --- model ------------------------------------------------------------------------------------------------------------


def configure(model: str, options: argparse.Namespace) -> BiDAFConfig:
    """The config of a model of the table above."""
    d = options.d
    words = EmbeddingConfig(d=100, mode="static", vectors="glove.100d.txt")
    if model in ("random", "no_words"):
        words = EmbeddingConfig(d=100, dropout=options.word_dropout)
    changes: dict[str, Any] = {
        "no_c2q": {"context_to_query": False},
        "no_q2c": {"query_to_context": False},
        "no_words": {"use_words": False},
        "no_characters": {"characters": NoCharacterConfig()},
        "conditioned": {"end_reads_start": True},
        "random": {"unknown_dropout": options.unknown_dropout},
        "v2": {"no_answer": options.no_answer},
        "v2_extra": {"no_answer": options.no_answer},
        "v2_later": {"no_answer": options.no_answer},
        "v2_held": {"no_answer": options.no_answer},
    }.get(model, {})
    lstm = {"d": d, "init": "orthogonal"}
    return BiDAFConfig(
        words=words,
        contextual=RecurrentConfig(**lstm),
        modeling=RecurrentConfig(**lstm, n_layers=2, dropout=options.dropout),
        end=RecurrentConfig(**lstm),
        dropout=options.dropout,
        match=options.match,
        **changes,
    )


def build(model: str, data: Data, options: argparse.Namespace) -> BiDAF:
    vectors = None if data.vectors is None else torch.from_numpy(data.vectors)
    network = build_bidaf(configure(model, options), data.encoding.words, len(data.encoding.characters), vectors)
    for part in network.modules():
        if hasattr(part, "joint_directions"):
            part.joint_directions = not options.separate_directions
    return network


# --- training ---------------------------------------------------------------------------------------------------------


class Distractors:
    """For each training example, windows of other paragraphs of its article."""

    def __init__(self, data: Data, seed: int) -> None:
        self.data, self.generator = data, np.random.default_rng(seed)
        by_title: dict[str, list[int]] = defaultdict(list)
        title = {int(t): e.title for t, e in zip(data.train.context_index, data.train.examples, strict=True)}
        for text, name in title.items():
            by_title[name].append(text)
        self.groups = {
            text: np.array([t for t in by_title[name] if t != text] or [text]) for text, name in title.items()
        }

    def batch(self, rows: np.ndarray, device: torch.device, spans: np.ndarray) -> ReadingBatch:
        """The examples at even rows, each followed by its question with another paragraph."""
        own, texts = self.data.rows.rows.take(rows), self.data.train.encoded.contexts
        other = np.array([self.generator.choice(self.groups[int(t)]) for t in own.texts])
        pairs = WindowRows(
            np.repeat(own.questions, 2),
            np.stack((own.texts, other), 1).ravel(),
            np.stack((own.first, np.zeros_like(other)), 1).ravel(),
            np.stack((own.lengths, np.minimum(texts.lengths[other], 400)), 1).ravel(),
        )
        batch = self.data.train.encoded.batch(pairs, device)
        starts, ends = torch.from_numpy(spans).to(device).T.contiguous()
        return ReadingBatch(batch.tokens, batch.context, batch.question, starts, ends, batch.n_tokens)

    def replace(self, rows: np.ndarray, device: torch.device, spans: np.ndarray, part: float) -> ReadingBatch:
        """The examples; a part of those with an answer gets another paragraph, which does not have it."""
        own, texts = self.data.rows.rows.take(rows), self.data.train.encoded.contexts
        alone = np.array([len(self.groups[int(t)]) == 1 for t in own.texts])
        change = (spans[:, 0] >= 0) & ~alone & (self.generator.random(len(rows)) < part)
        other = np.array([self.generator.choice(self.groups[int(t)]) for t in own.texts])
        changed = WindowRows(
            own.questions,
            np.where(change, other, own.texts),
            np.where(change, 0, own.first),
            np.where(change, np.minimum(texts.lengths[other], 400), own.lengths),
        )
        batch = self.data.train.encoded.batch(changed, device)
        starts, ends = torch.from_numpy(np.where(change[:, None], -1, spans)).to(device).T.contiguous()
        return ReadingBatch(batch.tokens, batch.context, batch.question, starts, ends, batch.n_tokens)


class Run:
    """One model with one seed: training, evaluation after each epoch, checkpoints."""

    def __init__(self, model: str, seed: int, data: Data, options: argparse.Namespace, folder: Path) -> None:
        self.name, self.seed, self.data, self.options, self.folder = model, seed, data, options, folder
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        torch.manual_seed(seed)
        self.network = build(model, data, options).to(self.device)
        trained = [p for p in self.network.parameters() if p.requires_grad]
        self.optimizer = torch.optim.Adam(trained, options.learning_rate, fused=self.device.type == "cuda")
        self.average = MovingAverage(self.network, options.ema)
        self.steps_an_epoch = math.ceil(len(data.rows) / options.batch_size)
        self.epoch = self.step = 0
        self.history: list[dict[str, float]] = []
        self.best: dict[str, Tensor] = {}
        self.begun, self.deadline = time.time(), options.deadline
        self.answerable = np.array([bool(example.references) for example in data.train.examples])

    def train(self) -> bool:
        """Train up to the last epoch; False if the time is over before."""
        self.resume()
        while self.epoch < self.options.epochs:
            if self.options.finish and self.progress() >= 1:
                return True
            begin = time.time()
            loss, tokens = self.train_epoch()
            seconds = time.time() - begin
            self.epoch += 1
            self.report(loss, seconds, tokens)
            if self.options.finish:
                continue
            self.checkpoint()
            if time.time() + 1.3 * seconds > self.deadline and self.epoch < self.options.epochs:
                return False
        return True

    def train_epoch(self) -> tuple[float, int]:
        o = self.options
        generator = np.random.default_rng((self.seed, self.epoch))
        lengths = self.data.rows.rows.lengths
        used = np.arange(len(lengths))
        if self.name in LATER and self.epoch < o.answerable:
            used = used[self.answerable[self.data.rows.rows.questions]]
        plan = BatchPlan.shuffled(lengths[used], BatchConfig(batch_size=o.batch_size), generator)
        later = self.name in LATER and self.epoch >= o.answerable and o.distractors > 0
        others = Distractors(self.data, self.seed + 1000 * self.epoch) if self.name == "shared" or later else None
        self.network.train()
        total = torch.zeros((), device=self.device)
        tokens = 0
        n_steps = 0
        for rows in (used[chosen] for chosen in plan):
            if o.finish and self.progress() >= 1:
                break
            n_steps += 1
            spans = self.data.rows.choose_spans(rows, None if o.first_answer else generator)
            if later:
                batch = others.replace(rows, self.device, spans, o.distractors)
            else:
                batch = (others or self.data.rows).batch(rows, self.device, spans)
            total += self.train_step(batch, 2 if self.name == "shared" else 1)
            tokens += batch.n_tokens
        return float(total) / max(n_steps, 1), tokens

    def train_step(self, batch: ReadingBatch, n_paragraphs: int) -> Tensor:
        o = self.options
        for group in self.optimizer.param_groups:
            group["lr"] = o.learning_rate * self.schedule()
        with torch.autocast(self.device.type, torch.bfloat16, enabled=o.bf16):
            logits = self.network(batch.tokens, batch.context, batch.question)
        loss = span_loss(logits, batch.starts, batch.ends, n_paragraphs)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.network.parameters(), o.clip)
        self.optimizer.step()
        self.average.after_step()
        self.step += 1
        return loss.detach()

    def schedule(self) -> float:
        """Linear warm-up, then the first quarter of a cosine down to 0.02."""
        warm = min(1.0, (self.step + 1) / self.options.warmup)
        return warm * max(0.02, math.cos(math.pi / 2 * min(1.0, self.progress())))

    def progress(self) -> float:
        """The part of the training that is done: by steps or, with ``--finish``, by the time if that is further."""
        by_steps = self.step / (self.options.epochs * self.steps_an_epoch)
        if not self.options.finish:
            return by_steps
        return max(by_steps, (time.time() - self.begun) / max(self.deadline - RESERVE - self.begun, 1.0))

    # --- evaluation ---

    def report(self, loss: float, seconds: float, tokens: int) -> None:
        begin = time.time()
        with using(self.network, self.average.weights()):
            scores = {"epoch": self.epoch, "loss": loss, **self.evaluate()}
            if not self.history or scores["dev_f1"] > max(line["dev_f1"] for line in self.history):
                self.best = {k: v.detach().clone() for k, v in self.network.state_dict().items()}
        scores |= {"seconds": seconds, "tokens_a_second": tokens / seconds, "evaluation": time.time() - begin}
        self.history.append(scores)
        shown = " ".join(f"{key} {value:.4g}" for key, value in scores.items())
        print(f"{self.name}-{self.seed}: {shown}", flush=True)

    def finder(self) -> AnswerFinder:
        return AnswerFinder(self.network, self.data.encoding, ReadingOptions(max_answer=self.options.max_answer))

    def evaluate(self) -> dict[str, float]:
        finder = self.finder()
        scores: dict[str, float] = {}
        threshold = 0.0
        for part, questions in (("dev", self.data.dev), ("test", self.data.test)):
            pairs = [(i, [int(text)]) for i, text in enumerate(questions.context_index)]
            best = finder.find_best(questions.encoded, pairs)
            references = [e.references for e in questions.examples]
            if self.name.startswith("v2"):
                margins = [answer.no_answer_margin for answer in best]
                if part == "dev":
                    f1 = answer_f1_measure().statistics(references, [a.text for a in best])[:, 0]
                    threshold = fit_no_answer_threshold(margins, f1, [float(not r) for r in references]).threshold
                texts = ["" if m > threshold else a.text for a, m in zip(best, margins, strict=True)]
                report = answer_report(references, texts, "2.0")
                scores |= {f"{part}_has": 100 * report.answerable_f1, f"{part}_no": 100 * report.unanswerable_accuracy}
            else:
                report = answer_report(references, [answer.text for answer in best], "1.1")
            scores |= {f"{part}_em": 100 * report.exact_match, f"{part}_f1": 100 * report.f1}
        return scores

    def evaluate_folder(self) -> dict[str, float]:
        """Exact match and F1 end to end, by the number of paragraphs that are read."""
        data = self.data
        number = {text: i for i, text in enumerate(data.paragraphs)}
        paragraphs = [Paragraph(text, "", 0, 1) for text in data.paragraphs]
        dev = [e for e in data.dev.examples if e.context in number]
        test = data.test.examples
        references = [e.references for e in test]
        scores: dict[str, float] = {}
        for k in KS:
            reader = FolderReader(self.finder(), paragraphs, KnownRanks(data.ranks), k)
            if k == 5:
                plain = answer_report(references, [a.text for a in reader.answer([e.question for e in test])], "1.1")
                scores["folder_f1_5_without_retrieval_score"] = 100 * plain.f1
            try:
                weights = reader.fit(dev)
            except DataError as error:  # an untrained model
                print(f"{self.name}-{self.seed}: {error}", flush=True)
                weights = reader.weights
            found = list(reader.answer([e.question for e in test]))
            report = answer_report(references, [a.text for a in found], "1.1")
            recall = np.mean([number[e.context] in a.paragraphs for e, a in zip(test, found, strict=True)])
            scores |= {
                f"recall_at_{k}": 100 * float(recall),
                f"folder_em_{k}": 100 * report.exact_match,
                f"folder_f1_{k}": 100 * report.f1,
                f"retrieval_weight_{k}": weights.retrieval / weights.spans,
            }
        return scores

    def finish(self) -> None:
        """Write the result of the best epoch and its weights in half precision, without frozen vectors."""
        best = max(self.history, key=lambda line: line["dev_f1"])
        self.network.load_state_dict(self.best)
        result = {"model": self.name, "seed": self.seed, **best, "history": self.history}
        small = {k: v.half().contiguous().cpu() for k, v in self.best.items() if not k.endswith(".frozen")}
        save_file(small, self.folder / "weights.safetensors")
        if self.name.startswith("v2"):
            self.write_spans()
        if self.name in ("glove", "shared"):
            folder = self.evaluate_folder()
            folder |= {f"ratio_{k}": folder[f"folder_f1_{k}"] / best["test_f1"] for k in KS}
            print(f"{self.name}-{self.seed}: " + " ".join(f"{k} {v:.4g}" for k, v in folder.items()), flush=True)
            result |= folder
        (self.folder / "result.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        (self.folder / "last.pt").unlink(missing_ok=True)

    def write_spans(self) -> None:
        """Write the best span of every question that is not trained on, its score and the score of no answer."""
        finder, rows = self.finder(), []
        for part, questions in (("held", self.data.held), ("dev", self.data.dev), ("test", self.data.test)):
            pairs = [(i, [int(text)]) for i, text in enumerate(questions.context_index)]
            found = finder.find_best(questions.encoded, pairs) if pairs else []
            for example, best in zip(questions.examples, found, strict=True):
                row = {"part": part, "id": example.id, "text": best.text, "span": best.score}
                rows.append(row | {"no_answer": best.no_answer})
        (self.folder / "spans.json").write_text(json.dumps(rows), encoding="utf-8")

    # --- checkpoints ---

    def checkpoint(self) -> None:
        state = {
            "network": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "average": self.average.tensors(),
            "best": self.best,
            "epoch": self.epoch,
            "step": self.step,
            "history": self.history,
            "random": torch.get_rng_state(),
            "cuda_random": torch.cuda.get_rng_state() if self.device.type == "cuda" else None,
        }
        torch.save(state, self.folder / "new.pt")
        os.replace(self.folder / "new.pt", self.folder / "last.pt")

    def resume(self) -> None:
        path = self.folder / "last.pt"
        if not path.exists():
            return
        state = torch.load(path, map_location=self.device, weights_only=False)
        self.network.load_state_dict(state["network"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.average.load(state["average"])
        self.best, self.epoch, self.step = state["best"], state["epoch"], state["step"]
        self.history = state["history"]
        torch.set_rng_state(state["random"].cpu())
        if state["cuda_random"] is not None:
            torch.cuda.set_rng_state(state["cuda_random"].cpu())
        print(f"{self.name}-{self.seed}: resumed after epoch {self.epoch}", flush=True)


def profile(model: str, data: Data, options: argparse.Namespace) -> None:
    """Print the time of a training step with both directions of an LSTM apart and together."""
    for separate in (True, False):
        options.separate_directions = separate
        run = Run(model, 0, data, options, Path())
        plan = BatchPlan.shuffled(
            data.rows.rows.lengths, BatchConfig(batch_size=options.batch_size), np.random.default_rng(0)
        )
        rows = [plan[i] for i in range(min(len(plan), options.profile))]
        begin = time.time()
        batches = [data.rows.batch(r, run.device) for r in rows]
        making = 1000 * (time.time() - begin) / len(rows)
        run.network.train()
        for attempt in range(2):  # the first is a warm-up
            begin = time.time()
            for batch in batches:
                loss = run.train_step(batch, 1)
            loss.item()
            seconds = time.time() - begin
            if attempt:
                kind = "apart" if separate else "together"
                per_step = 1000 * seconds / len(rows)
                print(f"directions {kind}: {per_step:.1f} ms a step, {making:.1f} ms to make a batch", flush=True)


# --- processes --------------------------------------------------------------------------------------------------------


def work(model: str, seed: int, options: argparse.Namespace) -> None:
    """Run one model with one seed in this process."""
    torch.set_num_threads(options.threads)
    torch.set_float32_matmul_precision("high")
    data = pickle.loads(data_file(model, options).read_bytes())
    if options.profile:
        profile(model, data, options)
        return
    folder = options.out / f"{model}-{seed}"
    run = Run(model, seed, data, options, folder)
    if run.train():
        run.finish()


def data_file(model: str, options: argparse.Namespace) -> Path:
    kind = {"random": "random", "no_words": "random", "v2": "v2", "v2_extra": "v2_extra", "v2_later": "v2_extra"}.get(
        model, "v2_held" if model == "v2_held" else "glove"
    )
    return options.out / f"data-{kind}.pickle"


def manage(options: argparse.Namespace) -> None:
    """Prepare the data and run all processes, a few of them in parallel."""
    options.out.mkdir(parents=True, exist_ok=True)
    for model in options.models:
        path = data_file(model, options)
        if not path.exists():
            begin = time.time()
            kind = path.stem.removeprefix("data-")
            path.write_bytes(pickle.dumps(prepare(kind, options.data, options)))
            print(f"{path.name} in {time.time() - begin:.0f} s", flush=True)
    waiting = [(model, seed) for seed in options.seeds for model in options.models]
    waiting = [(m, s) for m, s in waiting if not (options.out / f"{m}-{s}" / "result.json").exists()]
    running: list[subprocess.Popen[bytes]] = []
    while waiting or running:
        running = [process for process in running if process.poll() is None]
        while waiting and len(running) < options.parallel and time.time() < options.deadline:
            model, seed = waiting.pop(0)
            (options.out / f"{model}-{seed}").mkdir(exist_ok=True)
            command = [sys.executable, __file__, *sys.argv[1:], "--only", model, str(seed)]
            running.append(subprocess.Popen([*command, "--deadline", str(options.deadline)]))
        if time.time() >= options.deadline:
            waiting = []
        time.sleep(0.2)
    summarize(options.out)


def summarize(folder: Path) -> None:
    """Print mean and values of the finished runs, and write them to results.json."""
    results = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*/result.json"))]
    by_model: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for result in results:
        by_model[result["model"]].append(result)
    for model, several in by_model.items():
        for key in ("dev_f1", "test_em", "test_f1", "test_has", "test_no", *(f"folder_f1_{k}" for k in KS), "ratio_5"):
            values = [result[key] for result in several if key in result]
            if values:
                print(f"{model:14} {key:12} mean {np.mean(values):.2f}  {' '.join(f'{v:.2f}' for v in values)}")
    (folder / "results.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--out", type=Path, default=Path("runs/reading"))
    parser.add_argument("--models", nargs="+", choices=MODELS, default=["glove"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    parser.add_argument("--parallel", type=int, default=3, help="number of processes")
    parser.add_argument("--minutes", type=float, default=600, help="time for everything, from the start of this call")
    parser.add_argument("--finish", action="store_true", help="end every run by then, without checkpoints")
    parser.add_argument("--epochs", type=int, default=16)
    parser.add_argument("--answerable", type=int, default=5, help="first epochs of v2_later")
    parser.add_argument("--held", type=int, default=4, help="articles that v2_held does not train on")
    parser.add_argument("--distractors", type=float, default=0.0, help="part of the questions of v2_later")
    parser.add_argument("--match", action="store_true", help="add features of tokens that are in the other text")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--learning-rate", type=float, default=2e-3)
    parser.add_argument("--warmup", type=int, default=200, help="steps")
    parser.add_argument("--clip", type=float, default=5.0)
    parser.add_argument("--ema", type=float, default=0.999)
    parser.add_argument("--dropout", type=float, default=0.2)
    parser.add_argument("--word-dropout", type=float, default=0.2, help="of trained word vectors, in random")
    parser.add_argument("--unknown-dropout", type=float, default=0.5, help="in random")
    parser.add_argument("--no-answer", choices=("bias", "pooled"), default="bias", help="in v2")
    parser.add_argument("--min-count", type=int, default=2, help="of words without a vector")
    parser.add_argument("--max-answer", type=int, default=17)
    parser.add_argument("--d", type=int, default=100, help="units of an LSTM in each direction")
    parser.add_argument("--first-answer", action="store_true", help="train on the first answer, not on a random one")
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--separate-directions", action="store_true")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads of a process")
    parser.add_argument("--limit", type=int, default=0, help="use only this many questions of each part, for a trial")
    parser.add_argument("--profile", type=int, default=0, help="only time this many steps of the first model")
    parser.add_argument("--only", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--deadline", type=float, default=0.0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.deadline = options.deadline or time.time() + 60 * options.minutes
    if options.profile:
        options.models, options.seeds = options.models[:1], options.seeds[:1]
    return options


if __name__ == "__main__":
    chosen = parse()
    if chosen.only:
        work(chosen.only[0], int(chosen.only[1]), chosen)
    else:
        manage(chosen)
