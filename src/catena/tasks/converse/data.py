"""Conversations from files: contexts with responses, contexts to respond to, and both as ids."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from catena.data.conversations import (
    KINDS,
    Exchange,
    detect_conversations,
    inner_exchanges,
    read_exchanges,
    split_turns,
)
from catena.data.detect import detect_format
from catena.data.examples import SourceLocation
from catena.data.files import open_text, stored_name
from catena.data.readers import dialogue_lines
from catena.data.readers.vectors import read_vectors
from catena.data.reading import ReadCounter
from catena.data.records import open_records
from catena.data.roles import CONTEXT_COLUMNS, SOURCE
from catena.data.special_tokens import TURN_SYMBOL
from catena.data.tables import TABLE_FORMATS
from catena.data.tokenize import Tokenizer, build_tokenizer, load_tokenizer
from catena.data.vocabulary import UNK, Vocabulary
from catena.errors import CatenaError, DataError, FormatError
from catena.registry import did_you_mean
from catena.tasks.base import DataParts
from catena.tasks.config import TOKENIZER, VOCABULARY
from catena.tasks.converse.config import ConverseConfig, ConverseDataConfig

USER_INPUT_LOCATION = SourceLocation("input", 1)
_STRUCTURED = ("labeled", "distractors", "responses", "turns", "rows", "trees", "replies")
"""Formats in which a line is not a context. In all others each line is one, so that outputs match lines."""


def conversation_format(data: ConverseDataConfig, path: Path) -> tuple[str, str]:
    """The format of a file of conversations, from the config or detected, and the reason."""
    if data.input_format == "auto":
        found = detect_conversations(path, data.encoding, data.columns)
        return found.kind, found.why
    if data.input_format not in KINDS:
        known = did_you_mean(data.input_format, KINDS)
        raise FormatError(f"Unknown data.input_format {data.input_format!r} of conversations: {known}")
    return data.input_format, "set by data.input_format"


# --- contexts with responses ------------------------------------------------------------------------------------------


def read_conversations(data: ConverseDataConfig, path: Path, counter: ReadCounter) -> Iterator[Exchange]:
    """The usable exchanges of a file, truncated to the window; ``counter`` lists the dropped ones."""
    kind, _ = conversation_format(data, path)
    exchanges = read_exchanges(path, kind, columns=data.columns, encoding=data.encoding, counter=counter)
    for exchange in counter.seen(exchanges):
        context = tuple(turn for turn in exchange.context if turn.strip())
        own = tuple(own for turn, own in zip(exchange.context, exchange.own, strict=True) if turn.strip())
        good = tuple(dict.fromkeys(text for text in exchange.responses if text.strip()))
        wrong, hard = (tuple(text for text in side if text.strip()) for side in (exchange.wrong, exchange.hard))
        if not context:
            counter.drop("with an empty context", exchange.location, " / ".join(exchange.responses))
        elif not good and not wrong:
            counter.drop("with an empty response", exchange.location, " / ".join(exchange.context))
        else:
            w = data.window
            yield Exchange(context[-w:], good, exchange.location, own[-w:], wrong, hard, exchange.has_distractors)


def training_exchanges(train: Sequence[Exchange], data: ConverseDataConfig) -> list[Exchange]:
    """The exchanges to train on: those of train and, with ``inner_turns``, those of their contexts."""
    inner = (one for exchange in train for one in inner_exchanges(exchange)) if data.inner_turns else ()
    return [*train, *inner]


def describe_parts(parts: DataParts[Exchange], data: ConverseDataConfig) -> list[str]:
    """Report lines about train, dev and test. Raise DataError if train or dev has no correct response."""
    for name in ("train", "dev"):
        if not any(exchange.responses for exchange in getattr(parts, name)):
            raise DataError(f"There is no correct response in {name}. Check the file.")
    named = {name: getattr(parts, name) for name in ("train", "dev", "test")}
    lines = [_summary_line(name, part) for name, part in named.items() if part]
    if data.inner_turns:
        n = len(training_exchanges(parts.train, data)) - len(parts.train)
        lines.append(f"the turns of contexts add {n:,} pairs to train")
    return lines


def _summary_line(name: str, part: Sequence[Exchange]) -> str:
    n_responses = sum(len(exchange.responses) for exchange in part)
    n_wrong = sum(len(exchange.wrong) for exchange in part)
    turns = sum(len(exchange.context) for exchange in part) / len(part)
    wrong = f" and {n_wrong:,} incorrect ones" if n_wrong else ""
    return f"{name}: {len(part):,} contexts of {turns:.1f} turns, {n_responses:,} responses{wrong}"


def distinct_texts(part: Iterable[Exchange]) -> list[str]:
    """The distinct turns and correct responses of a split."""
    return list(dict.fromkeys(text for one in part for text in (*one.context, *one.responses)))


def distinct_responses(part: Iterable[Exchange]) -> list[str]:
    """The distinct correct responses of a split, in order."""
    return list(dict.fromkeys(text for exchange in part for text in exchange.responses))


def context_response_pairs(part: Sequence[Exchange]) -> list[tuple[Exchange, str]]:
    """Every context with each of its correct responses."""
    return [(exchange, response) for exchange in part for response in exchange.responses]


# --- contexts to respond to -------------------------------------------------------------------------------------------


def read_contexts(data: ConverseDataConfig, path: Path, counter: ReadCounter) -> Iterator[Exchange]:
    """The contexts of a file of conversations, or the lines of any other file. Responses are not read."""
    column = data.context_column
    if column is None or not _has_column(path, column, data.encoding):
        column = _only_texts(path, data)
    if column is not None:
        columns = {"source": column}
        for record in open_records(path, (SOURCE,), columns=columns, encoding=data.encoding).read(
            counter, keep_empty=True
        ):
            yield Exchange(split_turns(record["source"] or ""), (), record.location)
        return
    data = data.model_copy(update={"context_column": None, "response_column": None})
    if data.input_format == "auto" and detect_format(path, data.encoding).format == "dialogue":
        yield from counter.seen(_dialogue_contexts(path, data.encoding))
        return
    if _has_lines(path, data):
        with open_text(path, data.encoding) as lines:
            yield from counter.seen(_line_contexts(path, lines))
        return
    kind, _ = conversation_format(data, path)
    for exchange in counter.seen(read_exchanges(path, kind, encoding=data.encoding)):
        yield Exchange(exchange.context, (), exchange.location, exchange.own)


def _dialogue_contexts(path: Path, encoding: str | None) -> Iterator[Exchange]:
    """All turns of each dialogue of a file whose lines show speakers or ends of turns."""
    for row in dialogue_lines.read(path, None, encoding):
        turns, speakers = (row.values.get(name, ()) for name in ("turns", "speakers"))
        yield Exchange(tuple(turns), (), row.location, tuple(speaker != speakers[-1] for speaker in speakers))


def _line_contexts(path: Path, lines: Iterable[tuple[int, str]]) -> Iterator[Exchange]:
    """The context of each line, which ends at a tab if there is one. A header line is skipped."""
    for i, (number, line) in enumerate(lines):
        context, tab, _ = line.partition("\t")
        if i or not (tab and context.strip().lower() in CONTEXT_COLUMNS):
            yield Exchange(split_turns(context), (), SourceLocation(str(path), number))


def _has_lines(path: Path, data: ConverseDataConfig) -> bool:
    """Whether each line of a file is a context, rather than a part of a conversation in one of the formats."""
    if data.input_format != "auto":
        return data.input_format == "text"
    try:
        kind, _ = conversation_format(data, path)
    except FormatError:  # blank lines or plain text: each line is a context
        if stored_name(path).endswith(".csv"):
            raise
        return True
    return kind not in _STRUCTURED and (kind != "pairs" or _are_plain_pairs(path, data))


def _are_plain_pairs(path: Path, data: ConverseDataConfig) -> bool:
    """Whether pairs are lines of context<TAB>response, without names or quotes."""
    layout = detect_format(path, data.encoding).options.get("layout")
    if layout is None or layout.delimiter != "\t":
        return False
    return layout.header is None and layout.quote is None and len(layout.names) == 2


def _only_texts(path: Path, data: ConverseDataConfig) -> str | None:
    """The column of texts of a table that has no responses, such as ids and questions."""
    found = detect_format(path, data.encoding) if data.input_format == "auto" else None
    if found is None or found.format not in TABLE_FORMATS or found.columns.keys() != {"text"}:
        return None
    return found.columns["text"].columns[0]


def _has_column(path: Path, column: str, encoding: str | None) -> bool:
    try:
        open_records(path, (SOURCE,), columns={"source": column}, encoding=encoding)
    except CatenaError:
        return False
    return True


# --- contexts and responses as ids ------------------------------------------------------------------------------------


class DualEncoding:
    """Encodes the last ``max_length`` ids of contexts and the first of responses. An empty text is one ``<unk>``.

    Args:
        tokenizer: the tokenizer.
        vocabulary: the vocabulary.
        max_length: the maximum number of ids.
        rarity: the idf of each id, for the initial weights of a new network; it is not stored.
    """

    def __init__(
        self, tokenizer: Tokenizer, vocabulary: Vocabulary, max_length: int, rarity: np.ndarray | None = None
    ) -> None:
        self.tokenizer, self.vocabulary, self.max_length, self.rarity = tokenizer, vocabulary, max_length, rarity
        self.turn = vocabulary.special(TURN_SYMBOL)

    def context(self, exchange: Exchange) -> np.ndarray:
        """The ids of the turns, with separators."""
        ids: list[int] = []
        for i, turn in enumerate(exchange.context):
            ids += [self.turn] if i else []
            ids += self.vocabulary.ids(self.tokenizer.tokens(turn))
        return np.array(ids[-self.max_length :] or [UNK], np.int32)

    def response(self, text: str) -> np.ndarray:
        """The ids of a response."""
        ids = self.vocabulary.ids(self.tokenizer.tokens(text))
        return np.array(ids[: self.max_length] or [UNK], np.int32)

    def save(self, folder: Path) -> None:
        self.tokenizer.save(folder / TOKENIZER)
        self.vocabulary.save(folder / VOCABULARY)


def load_dual_encoding(folder: Path, max_length: int) -> DualEncoding:
    """Load the encoding written by :meth:`DualEncoding.save`."""
    return DualEncoding(load_tokenizer(folder / TOKENIZER), Vocabulary.load(folder / VOCABULARY), max_length)


def fit_tokenizer(config: ConverseConfig, train: Iterable[Exchange]) -> Tokenizer:
    """The tokenizer of a config, trained on the texts of train if its kind needs training."""
    return build_tokenizer(config.tokenizer, distinct_texts(train))


def fit_vocabulary(
    config: ConverseConfig, tokenizer: Tokenizer, texts: Sequence[str], specials: Sequence[str], vectors: str | None
) -> Vocabulary:
    """The vocabulary of texts, and of the words of a file of vectors if there is one."""
    words = read_vectors(Path(vectors)).words if vectors is not None else ()
    limits = config.vocabulary if not tokenizer.symbols else None
    symbols = (*tokenizer.symbols, *words) if not tokenizer.symbols else tokenizer.symbols
    return Vocabulary.count((tokenizer.tokens(text) for text in texts), limits, specials, symbols)


def inverse_document_frequency(vocabulary: Vocabulary, tokenizer: Tokenizer, texts: Sequence[str]) -> np.ndarray:
    """log((1 + n) / (1 + number of texts with the id)) of each id; 0 for special tokens, including ``<unk>``."""
    frequency: Counter[str] = Counter()
    for text in texts:
        frequency.update(set(tokenizer.tokens(text)))
    found = [math.log((1 + len(texts)) / (1 + frequency.get(name, 0))) for name in vocabulary.symbols]
    found[: len(vocabulary.specials)] = [0.0] * len(vocabulary.specials)
    return np.array(found, np.float32)
