"""Reading as a task: answers to questions about texts, or from the paragraphs of a folder."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from catena.config import parse
from catena.data.batches import BatchPlan
from catena.data.examples import SourceLocation
from catena.data.readers.questions import (
    QuestionCounter,
    QuestionExample,
    QuestionFormat,
    detect_question_format,
    read_questions,
)
from catena.data.reading import ReadCounter
from catena.data.vocabulary import UNK
from catena.draw.picture import Picture
from catena.embeddings.config import BaseCharacterConfig
from catena.errors import CheckpointError, DataError
from catena.metrics.measure import Metric
from catena.metrics.reading import answer_f1_measure, exact_match_measure
from catena.metrics.text_table import table_lines
from catena.randomness import Randomness
from catena.retrieval.config import BM25Config
from catena.tasks.base import DataParts, Origin
from catena.tasks.neural import Dataset, NetworkTraining, NeuralTask, PlannedEpoch
from catena.tasks.read.answers import (
    AnswerFinder,
    AnswerList,
    BestAnswer,
    ReadingAttention,
    ReadingOptions,
    find_sentence,
)
from catena.tasks.read.build import build_bidaf
from catena.tasks.read.calibration import MixtureWeights, fit_scale
from catena.tasks.read.config import ReadConfig, ReadOptions, ReadSearchConfig
from catena.tasks.read.data import AnswerCounter, QuestionSet, ReadingBatch, ReadingTexts, ReadRows
from catena.tasks.read.encoding import ReadingEncoding, read_frozen_vectors
from catena.tasks.read.evidence import NoAnswerRegression, WordEvidence
from catena.tasks.read.folder import FolderReader
from catena.tasks.read.model import BiDAF, span_loss
from catena.tasks.read.predict import ReadEvaluation, ReadPrediction, choose_unit, rank_predictions
from catena.tasks.read.ranking import Paragraph, ParagraphRanker, ParagraphTermRanker, UnrankedParagraphs
from catena.tasks.read.spans import fit_no_answer_threshold
from catena.tasks.sources import Sources
from catena.training.task import BatchLoss

RETRIEVAL_WEIGHT = 0.6
"""Weight of the BM25 score of a paragraph; fitted on SQuAD with 5 of 2,067 paragraphs it was 0.55 to 0.65."""
_CALIBRATED = 1000
"""Maximum number of dev questions on which the temperature is fitted."""
_SAMPLES, _WIDTH = 3, 60
_MOST_TOKENS = 40
"""Maximum number of tokens of the text in a picture."""


class ReadTask(NeuralTask[ReadConfig, QuestionExample, ReadPrediction, ReadOptions]):
    """A reader, which answers questions by spans of texts."""

    name = "read"
    options_class = ReadOptions
    formats = ("tsv", "text", "csv", "jsonl")
    next_commands = ('answer RUN FILE_OR_FOLDER "question"', "evaluate RUN FILE", "predict RUN FILE --n-best 3")
    encoding: ReadingEncoding
    encoding_class = ReadingEncoding

    def __init__(self, config: ReadConfig, encoding: ReadingEncoding, network: BiDAF) -> None:
        super().__init__(config, encoding, network)
        self.model = network

    @property
    def knows_no_answer(self) -> bool:
        """Whether the model has a score of no answer."""
        return self.model.no_answer is not None

    @property
    def decision(self) -> NoAnswerRegression | None:
        """The regression that decides on no answer, which may not be fitted yet; None if scores decide."""
        return self.model.decision if isinstance(self.model.decision, NoAnswerRegression) else None

    @cached_property
    def evidence(self) -> WordEvidence:
        """Which words of questions are in texts."""
        return WordEvidence(self.encoding)

    # --- reading ------------------------------------------------------------------------------------------------------

    @classmethod
    def read(
        cls, config: ReadConfig, path: Path, counter: ReadCounter, *, gold: bool = True
    ) -> Iterator[QuestionExample]:
        data = config.data
        own = QuestionCounter(questions=counter)
        format = _format(config, path)
        examples = read_questions(path, own, format=format, separator=data.answer_separator, encoding=data.encoding)
        if gold and not any(example.answers for example in examples):
            raise DataError(f"{path} has no answers. Add them to the file, or predict with 'catena predict'.")
        for moved in own.moved:
            counter.note("questions with a corrected start or id", moved.location, moved.text)
        for lost in own.answers.dropped if gold else ():
            counter.note("reference answers that are not in the context", lost.location, lost.text)
        yield from examples

    @classmethod
    def describe_file(cls, config: ReadConfig, path: Path) -> str:
        how = "chosen" if config.data.input_format != "auto" else "detected"
        return f"{path.name} has questions in the format {_format(config, path)} ({how})"

    def to_example(self, item: Any) -> QuestionExample:
        if isinstance(item, QuestionExample):
            return item
        context, question = _split_item(item)
        return QuestionExample(context, question, (), "", SourceLocation("input", 0))

    @classmethod
    def split_key(cls, example: QuestionExample) -> str:
        """The context, so that questions about one paragraph stay together."""
        return example.context

    def usable(self, example: QuestionExample) -> QuestionExample | str:
        if not example.answers and not self.knows_no_answer:
            return "without an answer, which needs model.no_answer = bias or pooled"
        if example.answers and all(answer.start is None for answer in example.answers):
            return "whose answers are not in the context"
        return example

    # --- preparation --------------------------------------------------------------------------------------------------

    @classmethod
    def prepare(cls, config: ReadConfig, sources: Sources[QuestionExample], origin: Origin) -> NetworkTraining:
        training = super().prepare(config, sources, origin)
        training.data.lines.extend(sources.counter.notes())
        task, rows = training.task, training.data.train
        assert isinstance(task, ReadTask)
        if task.decision is not None:
            task.decision.fit_words(task.evidence, rows.questions.examples)
        return training

    @classmethod
    def fit_encoding(cls, config: ReadConfig, train: Sequence[QuestionExample], origin: Origin) -> ReadingEncoding:
        model = config.model
        words: list[str] = []
        vectors = None
        if model.use_words and model.words.vectors is not None:
            words, vectors = read_frozen_vectors(Path(model.words.vectors), model.words.d)
        characters = model.characters
        encoding = ReadingEncoding.count(
            [*dict.fromkeys(e.context for e in train), *(e.question for e in train)],
            tokenizer=config.tokenizer,
            vocabulary=config.vocabulary,
            pretrained=words,
            max_characters=characters.max_length if isinstance(characters, BaseCharacterConfig) else 16,
        )
        return encoding if vectors is None else encoding.with_vectors(vectors)

    @classmethod
    def build_network(cls, config: ReadConfig, encoding: ReadingEncoding, report: list[str] | None = None) -> BiDAF:
        vectors = None
        if encoding.n_pretrained:
            blank = np.zeros((encoding.n_pretrained, config.model.words.d), np.float32)
            vectors = torch.from_numpy(blank if encoding.vectors is None else encoding.vectors)
        if report is not None and encoding.vectors is not None:
            counts = encoding.words.counts
            known = sum(counts[len(counts) - encoding.n_pretrained :]) / max(1, sum(counts))
            report.append(
                f"{config.model.words.vectors}: {encoding.n_pretrained:,} words, {100 * known:.1f} % of the tokens"
            )
        return build_bidaf(config.model, encoding.words, len(encoding.characters), vectors)

    @classmethod
    def check_start(cls, theirs: ReadConfig, config: ReadConfig, folder: Path) -> None:
        if theirs.tokenizer != config.tokenizer:
            raise CheckpointError(
                f"tokenizer must be the one of {folder} ({theirs.tokenizer.kind!r}), got {config.tokenizer.kind!r} or "
                f"other options. Remove the options of the tokenizer."
            )

    def encode(self, examples: Sequence[QuestionExample], *, gold: bool = True) -> ReadRows:
        counter = AnswerCounter()
        return ReadRows(QuestionSet(self.encoding, examples, counter), self.config.search, counter)

    # --- training -----------------------------------------------------------------------------------------------------

    def epoch(self, rows: ReadRows, number: int, randomness: Randomness) -> PlannedEpoch:
        training = rows.training
        plan = BatchPlan.shuffled(rows.lengths, self.config.batches, randomness.numpy("batches", number))
        generator = randomness.numpy("references", number) if self.config.loss.references == "random" else None
        spans = training.choose_spans(np.arange(len(training)), generator)
        return PlannedEpoch(plan, lambda index: training.batch(index, self.device, spans[index]))

    def collate(self, rows: ReadRows, index: np.ndarray) -> ReadingBatch:
        return rows.training.batch(index, self.device)

    def loss(self, batch: ReadingBatch) -> BatchLoss:
        logits = self.model(batch.tokens, batch.context, batch.question)
        return BatchLoss(span_loss(logits, batch.starts, batch.ends), batch.size, batch.n_tokens)

    def describe_batch(self, batch: ReadingBatch) -> str:
        return f"{batch.size} questions, longest text {batch.context.rows.shape[1]} tokens"

    # --- evaluation ---------------------------------------------------------------------------------------------------

    def all_metrics(self) -> Mapping[str, Metric]:
        return {"f1": answer_f1_measure(), "exact_match": exact_match_measure()}

    def evaluate_dev(self, rows: ReadRows) -> ReadEvaluation:
        """Evaluate, and fit the regression and the threshold of no answer, and the temperature.

        All are buffers, so they are saved with the weights; the loss does not read them.
        """
        best = self._find_best(rows)
        references = [example.references for example in rows.questions.examples]
        if self.knows_no_answer:
            measure = answer_f1_measure("2.0", choose_unit(references))
            f1 = measure.statistics(references, [answer.text for answer in best])[:, 0]
            none = np.array([not answers for answers in references])
            if self.decision is not None:
                inputs = [self.decision.features(*parts) for parts in self._decided(rows, best)]
                self.decision.fit(np.stack(inputs), none)
            fitted = fit_no_answer_threshold(self._margins(rows, best), f1, none.astype(np.float64))
            self.model.no_answer_threshold.fill_(fitted.threshold)
        if self.config.evaluation.calibrate:
            self.model.scale.fill_(self._fitted_scale(rows))
        return self._evaluation(rows, best)

    def evaluate_rows(self, rows: ReadRows) -> ReadEvaluation:
        return self._evaluation(rows, self._find_best(rows))

    def _find_best(self, rows: ReadRows) -> list[BestAnswer]:
        return self._finder(ReadOptions()).find_best(rows.questions.encoded, rows.pairs())

    def _decided(
        self, rows: ReadRows, best: Sequence[BestAnswer]
    ) -> Iterator[tuple[WordEvidence, str, str, int, int, float]]:
        """The arguments of the regression for each question."""
        for example, answer in zip(rows.questions.examples, best, strict=True):
            margin = answer.no_answer_margin if math.isfinite(answer.no_answer_margin) else 0.0
            yield self.evidence, example.question, example.context, answer.start, answer.end, margin

    def _margins(self, rows: ReadRows, best: Sequence[BestAnswer]) -> list[float]:
        """By how much no answer is preferred, before the temperature."""
        if self.decision is None or not self.decision.fitted:
            return [answer.no_answer_margin for answer in best]
        return [self.decision.log_odds(*parts) for parts in self._decided(rows, best)]

    def _evaluation(self, rows: ReadRows, best: Sequence[BestAnswer]) -> ReadEvaluation:
        factor, threshold = self._margin_scale(), self._threshold(ReadOptions())
        margins = self._margins(rows, best)
        texts = ["" if factor * m > threshold else answer.text for m, answer in zip(margins, best, strict=True)]
        references = [example.references for example in rows.questions.examples]
        own = self.config.evaluation
        return ReadEvaluation(references, texts, own.script, own.unit)

    def _fitted_scale(self, rows: ReadRows) -> float:
        """The inverse temperature with the highest likelihood; 1 for a model that has not learned to answer yet."""
        try:
            return fit_scale(self._finder(ReadOptions()), rows.questions.examples[:_CALIBRATED])
        except DataError:
            return 1.0

    def show(self, rows: ReadRows, result: ReadEvaluation) -> list[str]:
        lines = []
        examples = rows.questions.examples
        for i in np.linspace(0, len(examples) - 1, min(_SAMPLES, len(examples))).astype(int).tolist():
            gold = " | ".join(dict.fromkeys(result.references[i])) or "no answer"
            lines.append(f"{examples[i].question[:_WIDTH]}  →  {result.answers[i] or 'no answer'}  (gold: {gold})")
        return lines

    # --- prediction ---------------------------------------------------------------------------------------------------

    def _margin_scale(self) -> float:
        """The factor of margins: log-odds of the regression have no temperature."""
        return 1.0 if self.decision is not None and self.decision.fitted else float(self.model.scale)

    def _threshold(self, options: ReadOptions) -> float:
        """The margin, scaled by the temperature, above which no answer is predicted."""
        for value in (options.no_answer_threshold, self.config.search.no_answer_threshold):
            if value is not None:
                return value
        return self._margin_scale() * float(self.model.no_answer_threshold)

    def _finder(self, options: ReadOptions) -> AnswerFinder:
        search = self.config.search
        reading = ReadingOptions(
            max_answer=options.max_answer or search.max_answer,
            window=search.window,
            stride=search.stride,
            n_best=options.n_best,
            no_answer_threshold=self._threshold(options),
            scale=float(self.model.scale),
        )
        decide = None
        if self.decision is not None and self.decision.fitted:
            decide = partial(self.decision.log_odds, self.evidence)
        return AnswerFinder(self.model, self.encoding, reading, self.config.evaluation.tokens_at_once, decide)

    def check_options(self, options: ReadOptions) -> None:
        self.search_options(options)
        if options.no_answer_threshold is not None and not self.knows_no_answer:
            raise DataError(
                "no_answer_threshold needs a model with a score of no answer. Remove it, or train with --no-answer "
                "bias on data in which some questions have no answer."
            )

    def search_options(self, options: ReadOptions) -> ReadTask:
        values = {
            name: value
            for name in ("max_answer", "no_answer_threshold")
            if (value := getattr(options, name)) is not None
        }
        search = parse(ReadSearchConfig, {**self.config.search.model_dump(), **values}, source="the options")
        return ReadTask(self.config.model_copy(update={"search": search}), self.encoding, self.model)

    def predict_examples(self, examples: Sequence[QuestionExample], options: ReadOptions) -> list[ReadPrediction]:
        finder = self._finder(options)
        numbers: dict[str, int] = {}
        pairs = [(i, [numbers.setdefault(e.context, len(numbers))]) for i, e in enumerate(examples)]
        encoded = ReadingTexts(self.encoding, list(numbers), [example.question for example in examples])
        logits = finder.read(encoded, pairs)
        return [
            self._prediction(example, finder.choose(encoded, windows, question=example.question), options.n_best)
            for example, windows in zip(examples, logits, strict=True)
        ]

    def _prediction(self, example: QuestionExample, found: AnswerList, n_best: int) -> ReadPrediction:
        spans = []
        for answer in found.answers:
            first, last = find_sentence(example.context, answer.start, answer.end)
            spans.append(
                ReadPrediction(
                    question=example.question,
                    answer=answer.text,
                    probability=answer.probability,
                    text_probability=answer.text_probability,
                    start_char=answer.start,
                    end_char=answer.end,
                    sentence=example.context[first:last],
                )
            )
        none = found.no_answer_probability if self.knows_no_answer else None
        best = rank_predictions(spans, example.question, n_best, has_answer=found.has_answer, no_answer=none)
        return replace(best, id=example.id or None)

    def answer(
        self,
        questions: Sequence[str],
        paragraphs: Sequence[Paragraph],
        options: ReadOptions | None = None,
        *,
        k: int | None = 5,
        ranker: ParagraphRanker | None = None,
        retrieval_weight: float = RETRIEVAL_WEIGHT,
    ) -> Iterator[ReadPrediction]:
        """The answers to questions from many paragraphs, with one softmax over all that are read.

        Args:
            questions: the questions.
            paragraphs: where to search; see :func:`catena.tasks.read.ranking.read_paragraphs`.
            options: the options of prediction.
            k: the number of paragraphs that are read for a question, the best ones by ``ranker``; None reads all.
            ranker: ranks the same paragraphs; BM25 by default.
            retrieval_weight: weight of the score of a paragraph.
        """
        options = options or ReadOptions()
        self.check_options(options)
        texts = [paragraph.text for paragraph in paragraphs]
        if k is None:
            ranker, k = UnrankedParagraphs(texts), len(texts)
        weights = MixtureWeights(float(self.model.scale), float(self.model.scale) * retrieval_weight)
        ranker = ranker or ParagraphTermRanker(texts, BM25Config())
        reader = FolderReader(self._finder(options), paragraphs, ranker, k, weights)
        for question, found in zip(questions, reader.answer(questions), strict=True):
            spans = [
                ReadPrediction(
                    question=question,
                    answer=one.text,
                    probability=one.probability,
                    text_probability=one.text_probability,
                    start_char=one.paragraph.start + one.start,
                    end_char=one.paragraph.start + one.end,
                    sentence=one.sentence,
                    file=one.paragraph.file or None,
                )
                for one in found.answers
            ]
            none = found.no_answer_probability if self.knows_no_answer else None
            yield rank_predictions(spans, question, options.n_best, has_answer=found.has_answer, no_answer=none)

    # --- pictures -----------------------------------------------------------------------------------------------------

    def draw(self, example: QuestionExample, options: ReadOptions) -> Picture:
        """A heat map: how much each token around the answer attends to each word of the question."""
        from catena.draw.heat import draw_heat

        attention, answer = self._attention(example, options)
        title = f"{example.question} → {answer or 'no answer'}"
        return draw_heat(
            attention.to_question,
            attention.text,
            attention.question,
            row_title="text",
            column_title="question",
            title=title,
        )

    def draw_text(self, example: QuestionExample, options: ReadOptions) -> str:
        """A line for each token around the answer with the word of the question that it attends to most."""
        attention, answer = self._attention(example, options)
        rows = [["text", "attends to", "weight"]]
        for token, weights in zip(attention.text, attention.to_question, strict=True):
            best = int(weights.argmax())
            rows.append([token, attention.question[best], f"{weights[best]:.3f}"])
        return "\n".join([f"{example.question} → {answer or 'no answer'}", "", *table_lines(rows)])

    def _attention(self, example: QuestionExample, options: ReadOptions) -> tuple[ReadingAttention, str | None]:
        """The attention in the window of the answer, of the tokens around it, and the answer."""
        (prediction,) = self.predict_examples([example], ReadOptions(**{**options.model_dump(), "n_best": 2}))
        best = next((one for one in prediction.ranked if one.answer is not None), None)
        if best is None or best.start_char is None:
            raise DataError("A blank text has no attention to draw. Give a text with words.")
        _, offsets = self.encoding.tokenize(example.context)
        at = int(np.searchsorted(offsets[:, 1], best.start_char, side="right"))
        window = self.config.search.window
        low = max(0, min(at - window // 2, len(offsets) - window))
        part = offsets[low : low + window]
        attention = self._finder(options).attend(example.question, example.context[part[0, 0] : part[-1, 1]])
        first = max(0, at - low - _MOST_TOKENS // 2)
        shown = slice(first, first + _MOST_TOKENS)
        return (
            attention._replace(
                text=attention.text[shown],
                to_question=attention.to_question[shown],
                to_text=attention.to_text[shown],
            ),
            prediction.answer,
        )

    # --- reports ------------------------------------------------------------------------------------------------------

    def summarize(self, parts: DataParts[QuestionExample], data: Dataset) -> list[str]:
        lines = []
        for name in ("train", "dev", "test"):
            rows: ReadRows = getattr(data, name)
            if len(rows):
                lines.append(f"{name}: {_describe_rows(rows)}")
        return [*lines, *(f"train: {line}" for line in data.train.counter.sentences())]

    def describe(self, top: int) -> list[str]:
        encoding, model = self.encoding, self.config.model
        lines = [
            f"a reader (BiDAF) of {self.n_parameters:,} parameters: {len(encoding.words):,} words "
            f"({encoding.n_pretrained:,} with pretrained vectors) and {len(encoding.characters):,} characters",
            f"answers of up to {self.config.search.max_answer} tokens; temperature fitted on dev: "
            f"{1 / float(self.model.scale):.3f}",
        ]
        if self.knows_no_answer:
            by = " and words" if self.decision is not None and self.decision.fitted else ""
            lines.append(f"no answer: {model.no_answer}{by}, threshold {self._threshold(ReadOptions()):.3f}")
        return lines


def _format(config: ReadConfig, path: Path) -> QuestionFormat:
    chosen = config.data.input_format
    return detect_question_format(path, config.data.encoding) if chosen == "auto" else chosen


def _split_item(item: Any) -> tuple[str, str]:
    """The context and the question of an input."""
    if isinstance(item, Mapping):
        item = (item.get("context"), item.get("question"))
    if isinstance(item, Sequence) and not isinstance(item, str) and len(item) == 2:
        context, question = item
        if isinstance(context, str) and isinstance(question, str):
            return context, question
    raise DataError(
        f"an input must be a pair (context, question), or an object with these keys, got {item!r:.60}. Pass a file of "
        f"such objects, or use 'catena answer RUN FILE QUESTION'."
    )


def _describe_rows(rows: ReadRows) -> str:
    encoded, examples = rows.questions.encoded, rows.questions.examples
    ids = encoded.words[encoded.contexts.flat]
    unknown = 100 * float((ids == UNK).mean()) if len(ids) else 0.0
    none = sum(not example.answers for example in examples)
    without = f", {none:,} without an answer" if none else ""
    return f"{len(rows):,} questions{without} on {len(encoded.texts):,} texts; {unknown:.1f} % of the words unknown"
