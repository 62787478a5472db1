"""A small treebank, sampled from a known grammar, and parsers of it."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from catena import config as configs
from catena.data.examples import SourceLocation, Tree
from catena.data.readers.brackets import to_text
from catena.data.reading import ReadCounter
from catena.grammar.cfg import Grammar
from catena.grammar.files import parse_grammar
from catena.grammar.generate import Generator
from catena.tasks.base import BaseTask, EvaluationResult
from catena.tasks.parse.config import ParseConfig
from catena.tasks.parse.constituency.trees import flat
from catena.tasks.parse.data import ParseExample, TreeExample

GENERATOR = """
S -> NP VP [0.8] | VP [0.2]
NP -> D N [0.5] | D J N [0.3] | NP PP [0.2]
VP -> V NP [0.5] | V NP PP [0.2] | V [0.3]
PP -> P NP [1.0]
D -> 'the' [0.6] | 'a' [0.4]
N -> 'dog' [0.4] | 'cat' [0.3] | 'park' [0.2] | 'man' [0.1]
J -> 'old' [0.5] | 'small' [0.5]
V -> 'sees' [0.6] | 'likes' [0.4]
P -> 'in' [0.7] | 'with' [0.3]
"""


def grammar() -> Grammar:
    return parse_grammar(GENERATOR)


@lru_cache
def trees(n: int, seed: int = 0, longest: int = 10_000) -> tuple[Tree, ...]:
    """Sampled trees of the grammar with at most ``longest`` words."""
    beyond = "error" if longest == 10_000 else "retry"
    generator = Generator(grammar(), seed=seed, max_words=longest, beyond=beyond)
    return tuple(parse.tree() for parse in generator.draws(n))


def write_bank(path: Path, n: int, seed: int = 0, longest: int = 12) -> Path:
    """Write n trees of the grammar, one per line."""
    path.write_text("".join(to_text(tree) + "\n" for tree in trees(n, seed, longest)), encoding="utf-8")
    return path


def model_config(**model: Any) -> ParseConfig:
    """A config with this model and without data."""
    return configs.parse(ParseConfig, {"model": model, "machine": {"device": "cpu", "threads": 1}})


def sentence(*words: str, constraint: Any = None) -> TreeExample:
    """A sentence without a tree."""
    return ParseExample(words, flat(words, words), SourceLocation("test", 1), constraint=constraint)


def evaluated(task: BaseTask[Any, Any, Any, Any], path: Path) -> EvaluationResult:
    """The evaluation of a file of trees."""
    return task.evaluate(task.read(task.config, path, ReadCounter()))
