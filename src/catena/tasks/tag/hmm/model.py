"""A trained hidden Markov model: maps sentences to the chain of tags given the words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from catena.structure.chain import LinearChain
from catena.tasks.tag.chains import ChainModel
from catena.tasks.tag.hmm.em import HmmTables
from catena.tasks.tag.hmm.symbols import HmmSymbols
from catena.tasks.word_inputs.sentences import Sentence


@dataclass(frozen=True, eq=False)
class HmmModel(ChainModel):
    """Tables of log-probabilities, and their symbols."""

    tables: HmmTables
    symbols: HmmSymbols

    def chain(self, sentences: Sequence[Sentence]) -> LinearChain:
        """The posterior of the tags of each sentence. Its log Z is log p(words), including the end of the sentence."""
        lengths = torch.tensor([len(sentence) for sentence in sentences])
        longest = max(1, int(lengths.max()))
        ids = np.zeros((len(sentences), longest), np.int64)
        for row, sentence in zip(ids, sentences, strict=True):
            row[: len(sentence)] = self.symbols.ids([sentence.words])
        scores = self.tables.emissions.T[ids]
        scores[np.arange(longest) >= lengths.numpy()[:, None]] = 0.0
        moves, start, end = (torch.from_numpy(x) for x in (self.tables.transitions, self.tables.start, self.tables.end))
        return LinearChain(torch.from_numpy(scores), moves, start, end, lengths=lengths)

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

    def tensors(self) -> dict[str, Tensor]:
        parts = {name: getattr(self.tables, name) for name in ("start", "transitions", "end", "emissions")}
        return {name: torch.from_numpy(np.array(part)) for name, part in parts.items()}

    def save(self, folder: Path) -> None:
        self.symbols.save(folder)

    @classmethod
    def load(cls, folder: Path, tensors: Mapping[str, Tensor]) -> HmmModel:
        """The model of a checkpoint folder, given its tensors."""
        return cls(HmmTables(**{name: tensor.numpy() for name, tensor in tensors.items()}), HmmSymbols.load(folder))


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
