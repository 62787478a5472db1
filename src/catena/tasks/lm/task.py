"""Language models as a task: all kinds read, score and continue text in the same way. Imports no torch."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from catena.data.corpus import Corpus
from catena.data.examples import SourceLocation, Text
from catena.data.formats import check_plain_text, text_format
from catena.data.reading import ReadCounter
from catena.data.vocabulary import UNK
from catena.errors import DataError
from catena.metrics.measure import Metric
from catena.tasks.base import BaseTask, check_text
from catena.tasks.lm.config import NEXT_COMMANDS, LmConfig, LmOptions
from catena.tasks.lm.data import LmEncoding, TextPart, encode_texts, read_lines
from catena.tasks.lm.predict import METRICS, LmEvaluation, ScoredText

if TYPE_CHECKING:
    import torch

    from catena.lm.base import AutoregressiveLM


@dataclass(frozen=True)
class PrefixState:
    """A stepper and its state after reading prompts, one row per prompt."""

    stepper: AutoregressiveLM[Any]
    state: Any


class LmTask(BaseTask[LmConfig, Text, ScoredText, LmOptions]):
    """A language model of any kind, with its tokenizer and vocabulary."""

    name = "lm"
    options_class = LmOptions
    formats = ("tsv", "text", "csv", "jsonl")
    next_commands: ClassVar[tuple[str, ...]] = NEXT_COMMANDS
    quantizable = True
    encoding: LmEncoding

    @property
    @abstractmethod
    def stepper(self) -> AutoregressiveLM[Any]:
        """The model as a stepper, for searches."""

    @property
    def stepper_device(self) -> torch.device:
        """The device of the stepper; n-gram models are on the CPU."""
        import torch

        return getattr(self.stepper, "device", None) or torch.device("cpu")

    # --- reading ------------------------------------------------------------------------------------------------------

    @classmethod
    def read(cls, config: LmConfig, path: Path, counter: ReadCounter, *, gold: bool = True) -> Iterator[Text]:
        if gold:
            check_plain_text(path, config.data.input_format, config.data.encoding)
        return counter.seen(read_lines(config.data, path))

    @classmethod
    def describe_file(cls, config: LmConfig, path: Path) -> str:
        format = text_format(path, config.data.input_format)
        return f"{path.name} is {'plain text' if format == 'text' else f'a table ({format})'}"

    def to_example(self, item: Any) -> Text:
        if isinstance(item, Text):
            return item
        return Text(check_text(item), SourceLocation("input", 0))

    @classmethod
    def split_key(cls, example: Text) -> str:
        return example.text

    # --- prompts ------------------------------------------------------------------------------------------------------

    def continue_(self, prompts: Sequence[str]) -> PrefixState:
        """The stepper and its state after reading prompts; an empty prompt is the start of a text."""
        import torch

        device = self.stepper_device
        listed = [self.encoding.ids(prompt) for prompt in prompts]
        lengths = torch.tensor([len(ids) for ids in listed], dtype=torch.long, device=device)
        width = max((len(ids) for ids in listed), default=0)
        ids = torch.full((len(listed), width), self.encoding.end, device=device)
        for row, own in zip(ids, listed, strict=True):
            row[: len(own)] = torch.tensor(own, dtype=torch.long)
        stepper = self.stepper
        return PrefixState(stepper, stepper.extend(stepper.start(len(listed)), ids, lengths))

    def text(self, ids: Iterable[int]) -> str:
        """The text of ids. An end symbol becomes a line break."""
        return self.encoding.text(ids)

    # --- scores of texts ----------------------------------------------------------------------------------------------

    def predict_examples(self, examples: Sequence[Text], options: LmOptions) -> list[ScoredText]:
        """The log-probabilities of texts, each scored separately with its end symbol."""
        lines = [[*self.encoding.ids(example.text), self.encoding.end] for example in examples]
        offsets = np.concatenate(([0], np.cumsum([len(line) for line in lines]))).astype(np.int64)
        flat = np.array([id for line in lines for id in line], np.int32)
        log_probs = self.separate_log_probs(Corpus(flat, offsets))
        tokenizer, end = self.encoding.tokenizer, self.encoding.vocabulary.tokens([self.encoding.end])[0]
        return [
            ScoredText(
                example.text,
                (*map(tokenizer.shown, tokenizer.tokens(example.text)), end),
                tuple(log_probs[low:high].tolist()),
                tuple((flat[low:high] != UNK).tolist()),
            )
            for example, (low, high) in zip(examples, pairwise(offsets.tolist()), strict=True)
        ]

    def separate_log_probs(self, corpus: Corpus) -> np.ndarray:
        """The log-probability of every token of texts that are scored separately."""
        from catena.tasks.lm.batches import separate_log_probs

        longest = self.config.batches.length if self.config.model.kind == "transformer" else None
        return separate_log_probs(self.stepper, corpus, longest, self.stepper_device)

    def part_log_probs(self, part: TextPart) -> np.ndarray:
        """The log-probability of every token of a text, with the context that the model was trained on."""
        from catena.tasks.lm.batches import text_log_probs

        return text_log_probs(self.stepper, part, self.config, self.stepper_device)

    # --- evaluation ---------------------------------------------------------------------------------------------------

    def all_metrics(self) -> Mapping[str, Metric]:
        return METRICS

    def evaluate(self, examples: Iterable[Text] | TextPart) -> LmEvaluation:
        """The log-probabilities of a whole text; its lines may be the context of later ones, so it is not in blocks."""
        if isinstance(examples, TextPart):
            return self.evaluate_part(examples)
        texts = list(examples)
        part = encode_texts(texts, self.encoding)
        if not part.tokens:
            raise DataError("There is no text to score. Check the file and data.blank_lines.")
        return replace(self.evaluate_part(part), texts=[text.text for text in texts])

    def evaluate_part(self, part: TextPart) -> LmEvaluation:
        """The log-probabilities of encoded text."""
        return LmEvaluation(self.config, part, self.part_log_probs(part))

    def evaluate_examples(self, examples: Sequence[Text]) -> LmEvaluation:
        return self.evaluate(examples)

    # --- reports ------------------------------------------------------------------------------------------------------

    def describe(self, top: int) -> list[str]:
        config, vocabulary = self.config, self.encoding.vocabulary
        frequent = sorted(range(len(vocabulary)), key=lambda i: -vocabulary.counts[i])[:top]
        lines = [
            f"a language model of kind {config.model.kind} over {config.tokenizer.kind}: {len(vocabulary):,} symbols",
            f"a text is a {config.data.unit}; blank lines: {config.data.blank_lines}",
            f"most frequent symbols: {' '.join(vocabulary.tokens(frequent))}",
        ]
        if self.networks:
            lines.insert(1, f"{sum(p.numel() for p in self.network.parameters()):,} parameters")
        return lines
