"""A trained hidden Markov model: maps sentences to the chain of tags given the words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float64

from catena.tasks.tag.chain_scores import ChainScores
from catena.tasks.tag.chains import ChainModel
from catena.tasks.tag.hmm.symbols import HmmSymbols
from catena.tasks.word_inputs.sentences import Sentence


@dataclass(frozen=True, eq=False)
class HmmTables:
    """Log-probabilities of first tags, of a tag or the end after a tag, and of a symbol given a tag."""

    start: Float64[np.ndarray, " k"]
    transitions: Float64[np.ndarray, "k k"]
    end: Float64[np.ndarray, " k"]
    emissions: Float64[np.ndarray, "k v"]

    def vector(self) -> Float64[np.ndarray, " n"]:
        """The tables as weights of a chain, beginning with those of each symbol with all tags."""
        return np.concatenate((self.emissions.T.ravel(), self.transitions.ravel(), self.start, self.end))


@dataclass(frozen=True, eq=False)
class HmmModel(ChainModel):
    """Tables of log-probabilities, and their symbols."""

    tables: HmmTables
    symbols: HmmSymbols

    def scores(self, sentences: Sequence[Sentence]) -> ChainScores:
        """Log-probabilities of tags and words. Their log Z is log p(words), including the end of the sentence."""
        lengths = np.array([len(sentence) for sentence in sentences], np.int64)
        longest = max(1, int(lengths.max()))
        ids = np.zeros((len(sentences), longest), np.int64)
        for row, sentence in zip(ids, sentences, strict=True):
            row[: len(sentence)] = self.symbols.ids([sentence.words])
        scores = self.tables.emissions.T[ids]
        scores[np.arange(longest) >= lengths[:, None]] = 0.0
        return ChainScores(scores, lengths, self.tables.transitions, self.tables.start, self.tables.end)

    def renamed(self, order: Sequence[int]) -> HmmModel:
        """The same model with state ``order[q]`` as state ``q``."""
        tables, at = self.tables, list(order)
        return HmmModel(
            HmmTables(tables.start[at], tables.transitions[at][:, at], tables.end[at], tables.emissions[at]),
            self.symbols,
        )

    def describe(self, labels: Sequence[str], top: int) -> list[str]:
        """Lines with the most probable words and next tags of each tag."""
        lines = [f"hidden Markov model of {len(labels)} tags and {len(self.symbols):,} symbols"]
        names, tables = self.symbols.names, self.tables
        for q, label in enumerate(labels):
            words = np.argsort(-tables.emissions[q], kind="stable")[:top]
            after = np.argsort(-tables.transitions[q], kind="stable")[:top]
            shown = "  ".join(f"{names[w]} {np.exp(tables.emissions[q, w]):.3f}" for w in words)
            follows = "  ".join(f"{labels[r]} {np.exp(tables.transitions[q, r]):.2f}" for r in after)
            lines.append(f"{label}: {shown}   then {follows}  the end {np.exp(tables.end[q]):.2f}")
        return lines

    def arrays(self) -> dict[str, np.ndarray]:
        return {name: getattr(self.tables, name) for name in ("start", "transitions", "end", "emissions")}

    def save(self, folder: Path) -> None:
        self.symbols.save(folder)

    @classmethod
    def load(cls, folder: Path, arrays: Mapping[str, np.ndarray]) -> HmmModel:
        """The model of a checkpoint folder, given its arrays."""
        return cls(HmmTables(**arrays), HmmSymbols.load(folder))


def best_names(counts: Float64[np.ndarray, "k k"]) -> list[int]:
    """A distinct state for each tag, matched greedily by ``counts[state, tag]``, largest first."""
    k = len(counts)
    order: list[int] = [-1] * k
    taken: set[int] = set()
    for place in np.argsort(-counts, axis=None, kind="stable"):
        state, tag = divmod(int(place), k)
        if order[tag] < 0 and state not in taken:
            order[tag] = state
            taken.add(state)
    return order
