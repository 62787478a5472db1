"""What trained parsers share: streams a block at a time, and constraints that go item by item with what is parsed.

A parser of either half says what its items and constraints are (:meth:`ParsePredictor.read_inputs`,
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
"""Sentences that are read and parsed together in a stream."""


class ParsePredictor(Predictor):
    """A trained parser. An item is a raw text, or a sentence in the words of its file."""

    asks: ClassVar[frozenset[str]] = frozenset({"n_best", "samples", "confidence", "scores", "constraint"})

    @abstractmethod
    def parse(self, items: Sequence[Any], asking: PredictOptions, constraints: Sequence[Any] | None) -> list[Any]:
        """A prediction for each item; ``constraints``, one for each, are None where the asking names no file."""

    @abstractmethod
    def read_constraints(self, path: Path) -> Iterator[Any]:
        """The constraints of a file, one for each item that is parsed."""

    def predict(self, items: Sequence[Any], asking: PredictOptions = DEFAULT_PREDICT_OPTIONS) -> list[Any]:
        if isinstance(items, str):
            raise DataError(
                "predict takes a list of sentences, and one text was given: put it in a list, as in predict([text])"
            )
        return list(self.predict_stream(items, asking))

    def predict_stream(self, items: Iterable[Any], asking: PredictOptions = DEFAULT_PREDICT_OPTIONS) -> Iterator[Any]:
        self.check(asking)
        waiting = iter(items)
        rules = None if asking.constraint is None else self.read_constraints(Path(asking.constraint))
        parsed = 0
        while block := list(islice(waiting, BLOCK)):
            constraints = None if rules is None else list(islice(rules, len(block)))
            if constraints is not None and len(constraints) < len(block):
                raise DataError(
                    f"{asking.constraint} has constraints for {parsed + len(constraints)} sentences, and more are "
                    f"to be parsed: it needs one for each, in their order, with _ where nothing is fixed"
                )
            yield from self.parse(block, asking.after(parsed), constraints)
            parsed += len(block)
        if rules is not None and next(rules, None) is not None:
            raise DataError(
                f"{asking.constraint} has constraints for more than the {parsed} sentences that were parsed: it needs "
                f"one for each, in their order"
            )
