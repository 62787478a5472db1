"""The common part of trained parsers: streams in blocks, and one constraint per item.

A subclass defines its items and constraints (:meth:`ParsePredictor.read_inputs`,
:meth:`ParsePredictor.read_constraints`) and parses a block of them (:meth:`ParsePredictor.parse`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

from catena.errors import DataError
from catena.tasks.application import DEFAULT_PREDICT_OPTIONS, PredictOptions, Predictor

BLOCK = 1024
"""Number of sentences that are read and parsed together in a stream."""


class ParsePredictor(Predictor):
    """A trained parser. An item is a raw text, or a sentence of a file."""

    supported_options: ClassVar[frozenset[str]] = frozenset({"n_best", "samples", "confidence", "scores", "constraint"})

    @abstractmethod
    def parse(self, items: Sequence[Any], options: PredictOptions, constraints: Sequence[Any] | None) -> list[Any]:
        """A prediction for each item; ``constraints`` has one for each item, or is None without a constraint file."""

    @abstractmethod
    def read_constraints(self, path: Path) -> Iterator[Any]:
        """The constraints of a file, one for each item."""

    def predict(self, items: Sequence[Any], options: PredictOptions = DEFAULT_PREDICT_OPTIONS) -> list[Any]:
        if isinstance(items, str):
            raise DataError(
                f"predict must get a list of sentences, got one text: {items!r:.60}. Put it in a list: predict([text])."
            )
        return list(self.predict_stream(items, options))

    def predict_stream(self, items: Iterable[Any], options: PredictOptions = DEFAULT_PREDICT_OPTIONS) -> Iterator[Any]:
        self.check(options)
        waiting = iter(items)
        rules = None if options.constraint is None else self.read_constraints(Path(options.constraint))
        parsed = 0
        while block := list(islice(waiting, BLOCK)):
            constraints = None if rules is None else list(islice(rules, len(block)))
            if constraints is not None and len(constraints) < len(block):
                raise DataError(
                    f"{options.constraint} must have a constraint for each sentence, got only "
                    f"{parsed + len(constraints)}. Add the others in the same order, with _ if nothing is fixed."
                )
            yield from self.parse(block, options.after(parsed), constraints)
            parsed += len(block)
        if rules is not None and next(rules, None) is not None:
            raise DataError(
                f"{options.constraint} must have a constraint for each of the {parsed} sentences, got more. Remove the "
                f"others."
            )
