"""The examples that a model is trained on: read from the files of a config, or given, and split."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from catena.data.reading import ReadCounter
from catena.errors import DataError

E = TypeVar("E")


@dataclass(frozen=True)
class DataParts(Generic[E]):
    """The examples of train, dev and test."""

    train: Sequence[E]
    dev: Sequence[E]
    test: Sequence[E] = ()


def drop_unscorable(family: Any, examples: Iterable[E], counter: ReadCounter) -> list[E]:
    """The examples that a task can score. The others are listed in the counter."""
    kept = []
    for example in examples:
        reason = family.why_unscorable(example)
        if reason is None:
            kept.append(example)
        else:
            counter.drop(reason, example.location, family.split_key(example))  # type: ignore[attr-defined]
    return kept


class Sources(Generic[E]):
    """The examples of the data files of a config, or given ones.

    Args:
        family: the class of the task, which reads them.
        config: the config with the files.
        given: examples of ``train`` and optionally ``dev`` and ``test``, instead of the files of these parts.
        has_test: whether the test set is used, if the config has one.
    """

    def __init__(
        self, family: Any, config: Any, given: Mapping[str, Iterable[E]] | None = None, *, has_test: bool = True
    ) -> None:
        self.family, self.config, self.given = family, config, {} if given is None else given
        self.has_test = has_test
        self.counter = ReadCounter()
        self.n_shared = 0
        """Number of examples in both train and dev, see ``data.train_on_dev``."""

    def __contains__(self, part: str) -> bool:
        return part in self.given or bool(self.paths(part))

    def read(self, part: str) -> Iterator[E]:
        """The examples of ``train``, ``dev`` or ``test``."""
        if part == "train" and part not in self:
            raise DataError(f"There is nothing to train on. Name a file, as in 'catena train {self.family.name} FILE'.")
        yield from self.counter.seen(self.given.get(part, ()))
        for path in self.paths(part):
            yield from self.family.read(self.config, path, self.counter)

    def paths(self, part: str) -> list[Path]:
        """The files of ``train``, ``dev`` or ``test``; none if its examples were given."""
        return [path for name, path in self._all_files().items() if name.partition("-")[0] == part]

    def _all_files(self) -> dict[str, Path]:
        files = self.config.data.example_files().items()
        unused = {*self.given, *(() if self.has_test else ("test",))}
        return {name: path for name, path in files if name.partition("-")[0] not in unused}

    def describe(self) -> list[str]:
        """The format of each file and how it was recognized."""
        return [f"{name}: {self.family.describe_file(self.config, path)}" for name, path in self._all_files().items()]

    def split(self) -> DataParts[E]:
        """The examples of train, dev and test. What has no file is split off train."""
        train, dev, test = (list(self.read(part)) for part in ("train", "dev", "test"))
        self.check("train", len(train))
        splits = self.config.data.splits(has_dev="dev" in self, has_test="test" in self, seed=self.config.seed)
        keys, groups = list(map(self.family.split_key, train)), list(map(self.family.split_group, train))
        index = splits.rows(keys, groups, fold=getattr(self.config.data, "fold", None))
        self.n_shared = len(index.train) + len(index.dev) + len(index.test) - len(train)
        parts = DataParts(
            [train[i] for i in index.train],
            self.keep_scorable(dev if "dev" in self else [train[i] for i in index.dev]),
            self.keep_scorable([train[i] for i in index.test] or test),
        )
        self.check("train", len(parts.train))
        self.check("dev", len(parts.dev))
        return parts

    def keep_usable(self, train: Iterable[E], usable: Callable[[E], E | str]) -> list[E]:
        """The training examples that ``usable`` returns; those for which it returns a reason are dropped."""
        kept = []
        for example in train:
            result = usable(example)
            if isinstance(result, str):
                self.counter.drop(result, example.location, self.family.split_key(example))  # type: ignore[attr-defined]
            else:
                kept.append(result)
        self.check("train", len(kept))
        return kept

    def keep_scorable(self, examples: Iterable[E]) -> list[E]:
        """The examples that can be scored; the others are dropped."""
        return drop_unscorable(self.family, examples, self.counter)

    def counts(self, parts: DataParts[Any]) -> str:
        """How many examples were read, used in these parts, and dropped."""
        n = len(parts.train) + len(parts.dev) + len(parts.test) - self.n_shared
        return self.counter.counts(n).sentence()

    def check(self, part: str, n: int) -> None:
        """Raise DataError if a part has no example left."""
        if n:
            return
        counts = self.counter.counts(self.counter.used).sentence("")
        files = set(map(str, self.paths(part)))
        first = next((dropped for dropped in self.counter.dropped if dropped.location.file in files), None)
        named = f"{' and '.join(sorted(files))} and the format" if files else "the examples"
        cure = f"Check {named}." if first is None else f"Correct them; the first is {first.location}."
        raise DataError(f"No example of {part} can be used: {counts}. {cure}")
