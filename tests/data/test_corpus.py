from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catena.data import corpus as corpus_module
from catena.data.corpus import CorpusBuilder

sentences = st.lists(st.lists(st.sampled_from(["a", "b", "c", "longer", "é"]), max_size=6), max_size=20)


def build(examples: list[list[str]]):
    builder = CorpusBuilder()
    for example in examples:
        builder.add(example)
    return builder.tokens, builder.finish()


@given(sentences)
def test_every_example_can_be_read_back(examples: list[list[str]]) -> None:
    tokens, corpus = build(examples)
    assert [[tokens[n] for n in corpus[i]] for i in range(len(corpus))] == examples
    assert corpus.lengths.tolist() == [len(example) for example in examples]


@given(sentences)
def test_a_corpus_on_disk_equals_one_in_memory(examples: list[list[str]]) -> None:
    _, in_memory = build(examples)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpus_module, "IN_MEMORY", 8)
        tokens, on_disk = build(examples)
    assert on_disk.flat.tolist() == in_memory.flat.tolist()
    mapping = np.arange(len(tokens))[::-1].copy()
    assert on_disk.renumbered(mapping).flat.tolist() == in_memory.renumbered(mapping).flat.tolist()


def test_counts_are_of_the_named_examples_alone() -> None:
    tokens, corpus = build([["a", "b", "a"], ["b"], ["c", "c"]])
    counts = corpus.counts(np.array([0, 2]), len(tokens))
    assert dict(zip(tokens, counts.tolist(), strict=True)) == {"a": 2, "b": 1, "c": 2}
    assert corpus.counts(np.array([], dtype=np.int64), 3).tolist() == [0, 0, 0]


def test_a_large_corpus_really_moves_to_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus_module, "IN_MEMORY", 64)
    _, corpus = build([["a", "b"]] * 40)
    assert isinstance(corpus.flat, np.memmap)
    assert len(corpus) == 40
