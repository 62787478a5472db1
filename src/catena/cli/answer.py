"""``catena answer RUN FILE_OR_FOLDER QUESTION…``, which answers questions from a text or a folder of texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from catena.cli.common import MachineOptions, open_task, parse_plain, warn, write_output
from catena.cli.parser import Arg, UsageError

if TYPE_CHECKING:
    from catena.tasks.read.predict import ReadPrediction
    from catena.tasks.read.ranking import Paragraph, ParagraphRanker
    from catena.tasks.read.task import ReadTask

_FOLDER_PARAGRAPHS = 5
"""Number of paragraphs of a folder that are read for a question."""
_MOST_NAMED = 3
"""Number of dropped files that are named."""


class AnswerCommand(MachineOptions):
    """Answer questions from a text file, or from the best paragraphs of a folder of text files."""

    usage = "catena answer RUN FILE_OR_FOLDER QUESTION… [--options]"
    example = 'catena answer runs/reader notes/ "Who planted the oak?" --n-best 3'

    run: Annotated[Path, Arg("RUN", positional=True)]
    """Run or checkpoint folder of a reader."""
    source: Annotated[Path, Arg("FILE_OR_FOLDER", positional=True)]
    """Text file, or folder of text files. Paragraphs are separated by blank lines."""
    questions: Annotated[tuple[str, ...], Arg("QUESTION…", positional=True)] = ()
    """Questions to answer."""
    file: Annotated[Path | None, Arg("FILE", "-f")] = None
    """File with one question per line."""
    k: int | None = Field(None, ge=1)
    """Number of paragraphs to read for a question, the best ones by --ranker. Default: 5 of a folder, all of a file."""
    ranker: Literal["bm25", "tfidf"] = "bm25"
    """How paragraphs are ranked for a question."""
    retrieval_weight: float | None = Field(None, ge=0)
    """Weight of the ranker's score in the score of an answer. Default: 0.6 for bm25, 0 for tfidf."""
    n_best: int = Field(1, ge=1)
    """Print the N most probable answers with different texts."""
    max_answer: int | None = Field(None, ge=1)
    """Maximum number of tokens of an answer. Default: as trained."""
    no_answer_threshold: float | None = None
    """Predict no answer if its log-probability exceeds the best answer's by more than this. Default: fitted."""
    encoding: Annotated[str | None, Arg("NAME")] = None
    """Encoding of the files if they are not UTF-8."""
    format: Literal["text", "tsv", "jsonl"] = "text"
    """text: answer, probability, sentence and file; tsv: a line for each answer; jsonl: an object for each question."""
    output: Annotated[Path | None, Arg("FILE", "-o")] = None
    """Output file. Default: standard output."""


def run(argv: Sequence[str]) -> int:
    """Print the answers to questions."""
    options = parse_plain(AnswerCommand, argv)

    from catena.data.reading import ReadCounter
    from catena.tasks.read.ranking import read_paragraphs

    questions = [*options.questions, *_read_lines(options)]
    if not questions:
        raise UsageError("QUESTION… is missing. Pass a question in quotes, or a file of questions with --file.")
    if not options.source.exists():
        raise UsageError(f"FILE_OR_FOLDER must exist, got {options.source}. Check the path.")
    task = _open_reader(options)
    counter = ReadCounter()
    paragraphs = read_paragraphs(options.source, counter, encoding=options.encoding)
    if counter.dropped:
        warn("answer", f"{options.source}: {counter.counts(counter.used).sentence('')}")
        for dropped in counter.dropped[:_MOST_NAMED]:
            warn("answer", dropped.text)
    write_output(_lines(_answers(task, paragraphs, questions, options), options.format), options.output)
    return 0


def _read_lines(options: AnswerCommand) -> list[str]:
    from catena.data.files import open_text

    if options.file is None:
        return []
    with open_text(options.file, options.encoding) as lines:
        return [line.strip() for _, line in lines if line.strip()]


def _open_reader(options: AnswerCommand) -> ReadTask:
    from catena.tasks.read.task import ReadTask

    task = open_task(options.run, options)
    if not isinstance(task, ReadTask):
        raise UsageError(f"RUN must be a reader, got {options.run}, a model of another task. Use 'catena train read'.")
    return task


def _answers(
    task: ReadTask, paragraphs: Sequence[Paragraph], questions: Sequence[str], options: AnswerCommand
) -> Iterator[ReadPrediction]:
    from catena.tasks.read.config import ReadOptions
    from catena.tasks.read.task import RETRIEVAL_WEIGHT

    k = options.k
    if k is None and options.source.is_dir():
        k = _FOLDER_PARAGRAPHS
    weight = options.retrieval_weight
    if weight is None:
        weight = RETRIEVAL_WEIGHT if options.ranker == "bm25" else 0.0
    chosen = ReadOptions(
        n_best=options.n_best, max_answer=options.max_answer, no_answer_threshold=options.no_answer_threshold
    )
    ranker = None if k is None else _ranker(paragraphs, options.ranker)
    return task.answer(questions, paragraphs, chosen, k=k, ranker=ranker, retrieval_weight=weight)


def _ranker(paragraphs: Sequence[Paragraph], name: str) -> ParagraphRanker:
    from catena.retrieval.config import BM25Config, TfidfConfig
    from catena.tasks.read.ranking import ParagraphTermRanker

    config = BM25Config() if name == "bm25" else TfidfConfig()
    return ParagraphTermRanker([paragraph.text for paragraph in paragraphs], config)


def _lines(predictions: Iterator[ReadPrediction], format: str) -> Iterator[str]:
    from catena.tasks.writing import PredictionWriter

    writer = PredictionWriter(format)
    for i, prediction in enumerate(predictions):
        if format == "text":
            yield from ([""] if i else [])
            yield from _text_lines(prediction)
        else:
            yield from writer.lines(prediction)


def _text_lines(prediction: ReadPrediction) -> Iterator[str]:
    """The question, then each answer with its probability and, below it, its sentence and location."""
    yield prediction.question
    for one in prediction.ranked:
        probability = "" if one.probability is None else f"  {one.probability:.3f}"
        yield f"  {one.answer or '(no answer)'}{probability}"
        if one.sentence is not None:
            yield f"      {' '.join(one.sentence.split())}  ({one.file}, character {one.start_char})"
