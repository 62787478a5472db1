"""Small parsers, treebanks and runs for the tests of dependency parsing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from catena.config import parse
from catena.data.examples import ConlluRow, ConlluSentence, SourceLocation
from catena.data.readers.conllu import write
from catena.randomness import Randomness
from catena.tasks.base import Origin
from catena.tasks.neural import NetworkTraining
from catena.tasks.parse.config import ParseConfig
from catena.tasks.parse.dependency.model import ArcScores, Biaffine, GoldDependencyTrees
from catena.tasks.parse.dependency.task import DependencyTask
from catena.tasks.pretrained import Pretrained
from catena.tasks.runs import load_task
from catena.tasks.sources import Sources

SMALL_MODEL = {
    "kind": "biaffine",
    "trees": "nonprojective",
    "words": {"embedding": {"d": 16}, "characters": {"kind": "none"}, "dropout": 0.0, "unknown_dropout": 0.0},
    "encoder": {"kind": "recurrent", "d": 16, "n_layers": 1},
    "dropout": 0.0,
    "d_arc": 16,
    "d_relation": 8,
}


def conllu(
    words: str, heads: str, relations: str | None = None, file: str = "x.conllu", line: int = 1
) -> ConlluSentence:
    """A sentence from blank-separated words, heads and relations."""
    forms, numbers = words.split(), heads.split()
    names = relations.split() if relations else ["root" if head == "0" else "dep" for head in numbers]
    rows = tuple(
        ConlluRow(str(i), form, form, "X", "_", "_", head, name, "_", "_")
        for i, (form, head, name) in enumerate(zip(forms, numbers, names, strict=True), start=1)
    )
    return ConlluSentence(rows, (), SourceLocation(file, line))


def scored(arcs: torch.Tensor, lengths: list[int], d: int = 3, k: int = 2, seed: int = 0) -> ArcScores:
    """Scores with given arcs and random vectors for relations, all of them with gradients, in float64."""
    generator = torch.Generator().manual_seed(seed)
    b, n, _ = arcs.shape
    heads, dependents = (torch.randn(b, n, d, generator=generator, dtype=torch.float64) for _ in range(2))
    biaffine = Biaffine(d, k, head_bias=True).double()
    with torch.no_grad():
        biaffine.weight.copy_(torch.randn(biaffine.weight.shape, generator=generator))
    return ArcScores(arcs, torch.tensor(lengths), heads, dependents, biaffine)


def gold(heads: list[list[int]], relations: list[list[int]]) -> GoldDependencyTrees:
    whole = all(h >= 0 for row in heads for h in row)
    n = max(len(row) for row in heads)
    padded = [[row + [-1] * (n - len(row)) for row in rows] for rows in (heads, relations)]
    return GoldDependencyTrees(torch.tensor(padded[0]), torch.tensor(padded[1]), whole)


def config(folder: Path, sentences: list[ConlluSentence], **sections: object) -> ParseConfig:
    """The config of a small run with these sentences, written to a file, as train and dev."""
    path = folder / "train.conllu"
    write(path, sentences)
    values: dict[str, object] = {
        "model": SMALL_MODEL,
        "data": {"train": [str(path)], "dev": str(path)},
        "machine": {"device": "cpu", "threads": 1},
        **sections,
    }
    return parse(ParseConfig, values)


def prepared(made: ParseConfig, seed: int = 0, pretrained: Pretrained | None = None) -> NetworkTraining:
    """A new model and the data of a config, ready to be trained."""
    origin = Origin(Randomness(seed), pretrained=pretrained)
    return DependencyTask.prepare(made, Sources(DependencyTask, made), origin)


def load(folder: Path) -> DependencyTask:
    """The trained parser of a run."""
    task = load_task(folder, "cpu")
    assert isinstance(task, DependencyTask)
    return task


def generated(n: int, seed: int, crossing: bool = False) -> list[ConlluSentence]:
    """Sentences of a known generator.

    Verbs are heads of the words after them up to the next verb, the first verb is the root, a noun before a verb is its
    subject and one after it its object. With ``crossing``, a word "that" is attached to the first word of its sentence.
    """
    rng = np.random.default_rng(seed)
    found = []
    for i in range(n):
        words, heads, relations = ["we"], [2], ["subject"]
        for verb in range(int(rng.integers(1, 4))):
            at = len(words) + 1
            words.append(str(rng.choice(["see", "hear", "know"])))
            heads.append(0 if verb == 0 else 2)
            relations.append("root" if verb == 0 else "clause")
            for _ in range(int(rng.integers(0, 3))):
                words.append(str(rng.choice(["cats", "dogs", "birds"])))
                heads.append(at)
                relations.append("object")
        if crossing:
            words.append("that")
            heads.append(1)
            relations.append("apposition")
        found.append(conllu(" ".join(words), " ".join(map(str, heads)), " ".join(relations), "made.conllu", i + 1))
    return found
