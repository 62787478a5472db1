"""Where two files come apart: lines taken out of one of them are found again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from catena.data.detect import detect_task
from catena.data.pairing import likely_break, part_header, sources_of_lines
from catena.data.roles import find_pair, names_pair


@pytest.mark.parametrize("extra", [1, 3])
def test_lines_that_are_missing_are_found(extra: int) -> None:
    rng = np.random.default_rng(0)
    for place in (0, 7, 100, 200 - extra):
        whole = rng.integers(5, 120, 200)
        counterpart = np.maximum(1, (whole * rng.uniform(1.0, 1.3, 200)).astype(int))
        short = np.delete(counterpart, range(place, place + extra))
        assert abs(likely_break(short.tolist(), whole.tolist()) - place) <= 1


def test_a_file_without_lines_comes_apart_at_once() -> None:
    assert likely_break([], [3, 4]) == 0


@pytest.mark.parametrize(
    ("line", "sentences"),
    [
        ("A man sleeps on a couch.\tEin Mann schläft auf einem Sofa.", True),
        ("我今天去学校\tI go to school today", True),
        ("phoomate\tF UW M EY T", False),
        ("F UW M EY T\tphoomate", False),
        ("New York\tnyu york", False),
    ],
)
def test_pairs_are_sentences_if_both_sides_have_words(line: str, sentences: bool, tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text(f"{line}\nx {line}.\n", encoding="utf-8")
    assert detect_task(tmp_path / "x.tsv") == ("translate" if sentences else "transduce")


SENTENCES = ["A man sleeps on a couch.\tEin Mann schläft.", "Two dogs run.\tZwei Hunde rennen.", "Go!\tGeh!"]
ANSWERS = ["What is the capital of France?\tParis", "Who wrote this long book?\tTolstoi"]
PHRASES = ["the door\tdie Tür", "a tree\tein Baum"]
WORDS = ["door\tTür", "tree\tBaum", "and\tund"]


def header_of(*lines: str) -> str | None:
    found, rest = part_header(lines, lambda line: line.split("\t"))
    assert [*rest] == [line for line in lines if line != found or line in lines[1:]]
    return found


@pytest.mark.parametrize(
    "names",
    ["source\ttarget", "TGT\tsrc", " text \tsummary", "English\tDeutsch", "german sentence\tfrench sentence",
     "source_text\ttarget_text", "input\toutput"],
)  # fmt: skip
def test_names_that_are_never_a_pair_name_the_columns_whatever_stands_below(names: str) -> None:
    assert names_pair(names.split("\t"))
    for below in (SENTENCES, WORDS, []):
        assert header_of(names, *below) == names
        side = names.startswith("TGT")
        assert [*sources_of_lines([names, *below])] == [line.split("\t")[side] for line in below]
        assert [*sources_of_lines([names, *below], swap=True)] == [line.split("\t")[1 - side] for line in below]


@pytest.mark.parametrize(
    "names",
    ["en\tde", "EN\tfra", "en-GB\tde_AT", "text_en\ttext_de", "en\tGerman", "question\tanswer", "Answer\tQuestion",
     "article\thighlights", "original\ttranslation", "incorrect\tcorrect", "prompt\tresponse", "it\tes"],
)  # fmt: skip
def test_names_that_may_be_words_name_the_columns_of_sentences_alone(names: str) -> None:
    assert not names_pair(names.split("\t"))
    assert header_of(names, *SENTENCES) == header_of(names, *ANSWERS) == names
    assert header_of(names, *WORDS) is header_of(names, *PHRASES) is None, "no sentences"
    assert header_of(names, *SENTENCES * 3, "we\twir") is None, "there are bare words among the sentences"
    assert header_of(names, *SENTENCES * 3, names) is None, "it comes up again"
    assert header_of(names) is None
    side = names != "Answer\tQuestion"
    assert next(sources_of_lines([names, *SENTENCES], swap=True)) == SENTENCES[0].split("\t")[side]


@pytest.mark.parametrize(
    "pair",
    ["en\ten", "German\tDeutsch", "deu\tde", "English\tHaus", "en\tHaus", "the source\tthe target", "en", "en\tde\tfr",
     "question\tquestion", "answer\tresponse", "text\tsentence", "Who?\tWer?", "\t", "", "en.\tde.", "de l'en\tde"],
)  # fmt: skip
def test_a_first_pair_is_kept(pair: str) -> None:
    assert header_of(pair, *SENTENCES) is None
    assert next(sources_of_lines([pair, *SENTENCES])) == pair.split("\t")[0]


@pytest.mark.parametrize(
    ("names", "sides"),
    [
        ("source target", (0, 1)), ("target x SOURCE", (2, 0)), ("de en", (0, 1)), ("id en de", (1, 2)),
        ("id en x", None), ("id en", (0, 1)), ("x German English", (1, 2)), ("en de fr", None), ("English en de", None),
        ("x answer y question", (3, 1)), ("instruction input output", (0, 2)), ("highlights id article", (2, 0)),
        ("a b", None), ("text x", None), ("", None),
    ],
)  # fmt: skip
def test_names_determine_the_columns_of_sources_and_targets(names: str, sides: tuple[int, int] | None) -> None:
    assert find_pair(names.split(" ")) == sides


def test_nothing_has_no_header() -> None:
    assert header_of() is None


@pytest.mark.parametrize("extra", [1, 3])
def test_lines_at_the_end_are_extra_if_the_lengths_fit_anywhere(extra: int) -> None:
    lengths = [len(f"the dog {i} runs") for i in range(80)]
    assert likely_break(lengths[:-extra], lengths) == 80 - extra
