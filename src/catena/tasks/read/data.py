"""Encoded questions and their batches.

Everything is encoded once; a batch only indexes arrays. A training example is a question, the window of its context
that has the answer, and the first and last token of the answer. An answer that begins or ends inside a token is widened
to whole tokens, which is counted and listed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from catena.data.files import shorten
from catena.data.readers.questions import QuestionExample
from catena.data.reading import Dropped, ReadCounter
from catena.data.tokenize import find_token_span
from catena.errors import DataError
from catena.tasks.read.config import ReadSearchConfig
from catena.tasks.read.encoding import FlatTexts, ReadingEncoding, TokenForms, TokenWindow, split_windows
from catena.tasks.read.model import DistinctTokens, TokenRows

NO_ANSWER = -1
"""First and last token of a question without an answer."""


@dataclass(frozen=True, eq=False)
class ReadingBatch:
    """Questions and windows of texts on the device of a model, with the gold positions in the windows."""

    tokens: DistinctTokens
    context: TokenRows
    question: TokenRows
    starts: Int[Tensor, " b"]
    ends: Int[Tensor, " b"]
    n_tokens: int
    """Number of tokens without padding."""

    @property
    def size(self) -> int:
        return len(self.starts)


@dataclass(frozen=True, eq=False)
class WindowRows:
    """Pairs of a question and a window of a text, as parallel arrays."""

    questions: Int[np.ndarray, " m"]
    texts: Int[np.ndarray, " m"]
    first: Int[np.ndarray, " m"]
    lengths: Int[np.ndarray, " m"]

    def __len__(self) -> int:
        return len(self.questions)

    def take(self, rows: Int[np.ndarray, " b"]) -> WindowRows:
        """Some of the pairs."""
        return WindowRows(self.questions[rows], self.texts[rows], self.first[rows], self.lengths[rows])


class ReadingTexts:
    """Texts and questions as token rows.

    Args:
        encoding: tokenizer and vocabularies.
        texts: the texts that questions are about, each once.
        questions: the questions.
    """

    def __init__(self, encoding: ReadingEncoding, texts: Sequence[str], questions: Sequence[str]) -> None:
        forms = TokenForms(encoding)
        self.texts = list(texts)
        self.offsets: list[np.ndarray] = []
        rows = []
        for text in texts:
            tokens, offsets = encoding.tokenize(text)
            rows.append(forms.add(tokens))
            self.offsets.append(offsets)
        self.contexts = FlatTexts(rows)
        self.questions = FlatTexts([forms.add(_question_tokens(encoding, question)) for question in questions])
        self.words, self.characters = forms.arrays()

    def windows(self, text: int, size: int, stride: int, max_answer: int) -> list[TokenWindow]:
        """The windows of a text (see :func:`split_windows`)."""
        return split_windows(int(self.contexts.lengths[text]), size, stride, max_answer)

    def slice(self, text: int, first: int, last: int) -> str:
        """The characters of a text from its token ``first`` to its token ``last``."""
        start, end = self.locate(text, first, last)
        return self.texts[text][start:end]

    def locate(self, text: int, first: int, last: int) -> tuple[int, int]:
        """Start and end in characters of the tokens ``first`` to ``last`` of a text."""
        offsets = self.offsets[text]
        return int(offsets[first, 0]), int(offsets[last, 1])

    def batch(
        self,
        rows: WindowRows,
        device: torch.device,
        starts: Int[np.ndarray, " b"] | None = None,
        ends: Int[np.ndarray, " b"] | None = None,
    ) -> ReadingBatch:
        """A batch of pairs with the gold positions in their windows, no answer by default."""
        contexts = self.contexts.gather(rows.texts, rows.first, rows.lengths)
        lengths = self.questions.lengths[rows.questions]
        questions = self.questions.gather(rows.questions, 0, lengths)
        everything = np.concatenate(([0], contexts.ravel(), questions.ravel()))
        distinct, places = np.unique(everything, return_inverse=True)
        context_rows, question_rows = np.split(places.reshape(-1)[1:], [contexts.size])
        none = np.full(len(rows), NO_ANSWER)

        def move(array: np.ndarray) -> Tensor:
            tensor = torch.from_numpy(np.ascontiguousarray(array, np.int64))
            return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor

        characters = self.characters[distinct]
        longest = max(1, int((characters != 0).sum(1).max()))
        return ReadingBatch(
            DistinctTokens(move(self.words[distinct]), move(characters[:, :longest])),
            TokenRows(move(context_rows.reshape(contexts.shape)), move(rows.lengths)),
            TokenRows(move(question_rows.reshape(questions.shape)), move(lengths)),
            move(none if starts is None else starts),
            move(none if ends is None else ends),
            int(rows.lengths.sum() + lengths.sum()),
        )


def _question_tokens(encoding: ReadingEncoding, question: str) -> list[str]:
    tokens, _ = encoding.tokenize(question)
    if not tokens:
        raise DataError(f"A question must have at least one word, got {shorten(question, 40)}. Write a question.")
    return tokens


@dataclass
class AnswerCounter:
    """Counts of the gold answers of training questions: used, without a span, and widened to whole tokens."""

    answers: ReadCounter = field(default_factory=ReadCounter)
    widened: list[Dropped] = field(default_factory=list)

    def sentences(self) -> list[str]:
        """One sentence about the spans, and one about those that were widened."""
        found = [f"answer spans: {self.answers.counts(self.answers.used).sentence('')}"]
        if self.widened:
            first = self.widened[0]
            found.append(f"widened to whole tokens: {len(self.widened):,}, first {first.location}: {first.reason}")
        return found


_LONGEST_GOLD = 30
"""Gold spans up to this number of tokens are inside of one window, if windows overlap enough."""


class QuestionSet:
    """Encoded questions with their gold spans.

    ``spans[span_offsets[i]:span_offsets[i + 1]]`` are first and last tokens of the answers of question i.

    Args:
        encoding: tokenizer and vocabularies.
        examples: the questions.
        counter: receives what is wrong with the answers.
    """

    def __init__(
        self, encoding: ReadingEncoding, examples: Sequence[QuestionExample], counter: AnswerCounter | None = None
    ) -> None:
        self.examples = list(examples)
        numbers: dict[str, int] = {}
        self.context_index = np.array(
            [numbers.setdefault(example.context, len(numbers)) for example in self.examples], np.int64
        )
        self.encoded = ReadingTexts(encoding, list(numbers), [example.question for example in self.examples])
        counter = counter or AnswerCounter()
        found = [self._find_spans(i, counter) for i in range(len(self.examples))]
        self.span_offsets = np.concatenate(([0], np.cumsum([len(spans) for spans in found], dtype=np.int64)))
        flat = [span for spans in found for span in spans]
        self.spans = np.array(flat, np.int64).reshape(-1, 2)

    def __len__(self) -> int:
        return len(self.examples)

    def _find_spans(self, i: int, counter: AnswerCounter) -> list[tuple[int, int]]:
        example, offsets = self.examples[i], self.encoded.offsets[self.context_index[i]]
        found = []
        for answer in example.answers:
            counter.answers.saw()
            span = None
            if answer.start is not None and answer.end is not None:
                span = find_token_span(offsets, answer.start, answer.end)
            if span is None:
                counter.answers.drop("not in the context", example.location, answer.text)
                continue
            if not span.exact:
                text = example.context[offsets[span.first, 0] : offsets[span.last, 1]]
                counter.widened.append(Dropped(example.location, f"{answer.text!r} to {text!r}", answer.text))
            found.append((span.first, span.last))
        return found


class TrainingRows:
    """Training examples of a question set: the window of the first answer, and all answers in this window.

    A question is left out if it has answers, but none with a span; ``left_out`` has their indices. A question without
    answers is an example of no answer in the first window of its text. ``spans[offsets[i]:offsets[i + 1]]`` are first
    and last positions in window i.

    Args:
        questions: the questions.
        size: the maximum number of tokens of a window.
        stride: the distance between two windows.
        max_answer: spans up to this length are inside of one window; longer ones are truncated at its end.
    """

    def __init__(self, questions: QuestionSet, size: int = 400, stride: int = 200, max_answer: int = 30) -> None:
        self.questions = questions
        self.left_out: list[int] = []
        found: list[tuple[int, int, int, int]] = []
        spans: list[list[tuple[int, int]]] = []
        for i, example in enumerate(questions.examples):
            own = questions.spans[questions.span_offsets[i] : questions.span_offsets[i + 1]].tolist()
            if example.answers and not own:
                self.left_out.append(i)
                continue
            text = int(questions.context_index[i])
            windows = questions.encoded.windows(text, size, stride, max_answer)
            window = _find_window(windows, own[0], max_answer) if own else windows[0]
            inside = [span for span in own if _find_window(windows, span, max_answer) == window]
            found.append((i, text, window.first, window.end - window.first))
            spans.append([_place(span, window) for span in inside] or [(NO_ANSWER, NO_ANSWER)])
        self.rows = WindowRows(*np.array(found, np.int64).reshape(-1, 4).T)
        self.offsets = np.concatenate(([0], np.cumsum([len(several) for several in spans], dtype=np.int64)))
        self.spans = np.array([span for several in spans for span in several], np.int64).reshape(-1, 2)

    def __len__(self) -> int:
        return len(self.rows)

    def choose_spans(
        self, rows: Int[np.ndarray, " b"], generator: np.random.Generator | None = None
    ) -> Int[np.ndarray, "b 2"]:
        """One gold span for each example: the first, or with a generator a random one."""
        first = self.offsets[rows]
        if generator is None:
            return self.spans[first]
        return self.spans[first + generator.integers(self.offsets[rows + 1] - first)]

    def batch(
        self, rows: Int[np.ndarray, " b"], device: torch.device, spans: Int[np.ndarray, "b 2"] | None = None
    ) -> ReadingBatch:
        """A batch of training examples with the given gold spans, by default those of the first answers."""
        starts, ends = (self.choose_spans(rows) if spans is None else spans).T
        return self.questions.encoded.batch(self.rows.take(rows), device, starts, ends)


@dataclass(frozen=True, eq=False)
class ReadRows:
    """Encoded questions, and the windows to train on if they are training questions.

    Args:
        questions: the questions.
        search: the size and the stride of windows.
        counter: what is wrong with the gold answers.
    """

    questions: QuestionSet
    search: ReadSearchConfig
    counter: AnswerCounter

    def __len__(self) -> int:
        return len(self.questions)

    @property
    def lengths(self) -> Int[np.ndarray, " n"]:
        """The number of tokens of each training window."""
        return self.training.rows.lengths

    @cached_property
    def training(self) -> TrainingRows:
        """The training examples."""
        window, stride = self.search.window, self.search.stride
        return TrainingRows(self.questions, window, stride, min(_LONGEST_GOLD, window - stride + 1))

    def pairs(self) -> list[tuple[int, list[int]]]:
        """Each question with the text that it is about."""
        return [(i, [int(text)]) for i, text in enumerate(self.questions.context_index)]


def _find_window(windows: Sequence[TokenWindow], span: Sequence[int], max_answer: int) -> TokenWindow:
    """The window that a span belongs to, or the beginning of a span that is too long."""
    first, last = span
    both = first + min(last, first + max_answer - 1)
    return next(window for window in windows if window.low <= both < window.high)


def _place(span: Sequence[int], window: TokenWindow) -> tuple[int, int]:
    """First and last position of a span in its window."""
    return span[0] - window.first, min(span[1], window.end - 1) - window.first
