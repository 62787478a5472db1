"""Real corpora are read completely, and no tags are lost. Skipped if they are not available."""

from __future__ import annotations

from pathlib import Path

import pytest

from catena.data.readers import columns, conllu
from catena.data.schemes import BILOU, IOB1, IOB2, convert_tags
from catena.metrics.spans import conll_spans, strict_spans
from catena.tasks.tag.lemmas import apply_script, edit_script


@pytest.mark.parametrize("name", ["conll2000_chunking/test.txt", "wnut17_ner/wnut17-dev.conll"])
def test_real_tags_survive_every_scheme(real_data: Path, name: str) -> None:
    sentences = list(columns.read(real_data / name))[::4]
    assert len(sentences) > 100
    for sentence in sentences:
        tags = list(sentence.column(-1))
        for dialect in (IOB1, BILOU):
            there = convert_tags(tags, "iob2", dialect)
            assert convert_tags(there, dialect.scheme, IOB2) == tags
            assert conll_spans(there) == conll_spans(tags) == strict_spans(tags, "iob2")


def test_real_lemmas_are_restored(real_data: Path) -> None:
    scripts = set()
    words = 0
    for sentence in conllu.read(real_data / "ud_english_ewt" / "en_ewt-ud-dev.conllu"):
        for word in sentence.words:
            script = edit_script(word.form, word.lemma)
            assert apply_script(script, word.form) == word.lemma
            scripts.add(script)
            words += 1
    assert len(scripts) < words / 40  # few scripts cover many words
