from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

import pytest

from catena.data.detect import detect_format, read_examples
from catena.data.readers.format_rules import BINARY_SIGNS, TEXT_SIGNS
from catena.data.readers.sample import HEAD_BYTES
from catena.data.readers.table import FORMATS
from catena.data.reading import ReadCounter
from catena.errors import FormatError, UnknownNameError
from tests.data.readers.specimens import SPECIMENS, Specimen


def written(folder: Path, content: str | bytes, name: str = "file") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize("specimen", SPECIMENS, ids=lambda s: s.format)
def test_every_example_file_is_detected_and_read(specimen: Specimen, tmp_path: Path) -> None:
    for content in (specimen.text.encode(), gzip.compress(specimen.text.encode("utf-16"))):
        path = written(tmp_path, content)
        found = detect_format(path)
        assert (found.format, found.why != "") == (specimen.format, True)
        assert sum(1 for _ in FORMATS[found.format].read(path, **found.options)) == specimen.count


SENTENCES = "the film is good and\nit was a long day for us\nnobody came to see it\nwhat a play this is\n"
WORDS = SENTENCES.split()


def sentences(n: int, seed: int = 0) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(3, 9))) for _ in range(n)]


def joined(lines: list[str]) -> str:
    return "".join(line + "\n" for line in lines)


@pytest.mark.parametrize(
    ("content", "format", "options"),
    [
        pytest.param(SENTENCES, "text", {}, id="text"),
        pytest.param("(applause) thank you\n(laughter)\n", "text", {}, id="text in brackets"),
        pytest.param("1 egg\n2 cups of flour\n3 spoons\n4 more\n", "text", {}, id="numbered list"),
        pytest.param("- one thing\n- two things\n" * 20, "text", {}, id="bullets"),
        pytest.param("Ann: hello you\nBob: good day sir\n" * 20, "text", {}, id="speakers"),
        pytest.param("{not json\n", "text", {}, id="brace"),
        pytest.param("[garbus] discards it\n", "text", {}, id="square bracket"),
        pytest.param("S -> NP VP\nNP -> Det N\n", "text", {}, id="grammar"),
        pytest.param("one\ntwo\nthree\n", "text", {}, id="word list"),
        pytest.param("a b c d\ne f g h\n\ni j k l\nm n o p\n\nq r s t\n", "text", {}, id="verse of equal lines"),
        pytest.param("pos a good film\nneg a bad film\nneg dull stuff\npos fine\n" * 3, "kim", {}, id="word labels"),
        pytest.param(
            "good not bad\nbad not good\n" + "good what a film\nbad no film\n" * 8,
            "kim",
            {},
            id="labels that are words",
        ),
        pytest.param("The cat sees a dog\nA dog likes the cat\nThe sun shines\n" * 4, "text", {}, id="toy texts"),
        pytest.param("DESC:manner how is it\nHUM:ind who is it\n" * 8, "kim", {}, id="TREC"),
        pytest.param("-1 a bad film\n+1 a good one\n-1 dull\n", "kim", {}, id="signed labels"),
        pytest.param(
            "a good film\tpos\na bad film\tneg\nx y z\tneg\n", "tsv-label", {"label_first": False}, id="after"
        ),
        pytest.param("book a flight\tfly me there\nplay a song\tsing it\n" * 5, "tsv-label", {}, id="label of words"),
        pytest.param("__label__x hello\n", "fasttext", {}, id="fasttext"),
        pytest.param("Kopf\thead\nHand\thand\nFuß\tfoot\n", "parallel", {}, id="word pairs"),
        pytest.param("EU B-ORG\nrejects O\n", "columns", {"separator": "blank"}, id="one sentence"),
        pytest.param("a\tDT\nb\tNN\n\nc\tDT\n", "columns", {"separator": "tab"}, id="part-of-speech tags"),
        pytest.param(
            "# id 1\na _ O\n\n# id 2\nb _ B-X\n", "columns", {"separator": "blank"}, id="columns with comments"
        ),
        pytest.param("( (S\n (NN a)))\n", "brackets", {}, id="brackets on many lines"),
        pytest.param("(S (N a) (V b))\n(S (N a) (V b)\n(S (N c))\n", "brackets", {}, id="a bracket is missing"),
        pytest.param("(S (N a) (V b))\n(S (N a) (V b)))\n(S (N c))\n", "brackets", {}, id="a bracket too many"),
        pytest.param("(as we said\nit is (a bad) thing\n", "text", {}, id="text with an open bracket"),
        pytest.param('{"a": 1, "b": "x"}\n', "jsonl", {}, id="JSON without known keys"),
        pytest.param(
            '{"id": 1, "utterance": "x", "intent": "a"}\n',
            "jsonl",
            {"text_column": "utterance", "label_column": "intent"},
            id="JSON with known keys",
        ),
        pytest.param(
            "label;text\na;one, two\nb;three\n",
            "csv",
            {"delimiter": ";", "text_column": "text", "label_column": "label"},
            id="semicolons",
        ),
        pytest.param(
            'Sentiment , Review\n1,"two\nlines"\n0,x\n',
            "csv",
            {"text_column": "Review", "label_column": "Sentiment"},
            id="CSV with a text of two lines",
        ),
        pytest.param(
            'text\tlabel\n"a ""quoted"" text"\tx\n"b"\ty\n',
            "tsv",
            {"quoted": True, "text_column": "text", "label_column": "label"},
            id="TSV with the quotes of CSV",
        ),
        pytest.param(
            'sentence\tlabel\n"it \'s good" he says\t1\n"\t0\n',
            "tsv",
            {"text_column": "sentence", "label_column": "label"},
            id="TSV with plain quotes",
        ),
    ],
)
def test_format_is_detected(content: str, format: str, options: dict, tmp_path: Path) -> None:
    found = detect_format(written(tmp_path, content))
    assert (found.format, found.options) == (format, options)


@pytest.mark.parametrize(
    ("name", "content", "format", "options"),
    [
        pytest.param(
            "x.csv",
            joined([f'{i % 3},"{t}, or so",{i}' for i, t in enumerate(sentences(20))]),
            "csv",
            {"header": False, "text_column": "2", "label_column": "1"},
            id="CSV without a header",
        ),
        pytest.param("x.csv.gz", "text\nhello there\n", "csv", {"text_column": "text"}, id="one column"),
        pytest.param("x.csv", "who,said\nann,hello to you\nbob,good day\n", "csv", {}, id="unknown names"),
        pytest.param("x.tsv", "text\tn\nhello\t1\n", "tsv", {"text_column": "text"}, id="TSV with a text alone"),
    ],
)
def test_the_name_of_the_file_helps(name: str, content: str, format: str, options: dict, tmp_path: Path) -> None:
    data = gzip.compress(content.encode()) if name.endswith(".gz") else content
    found = detect_format(written(tmp_path, data, name))
    assert (found.format, found.options) == (format, options)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "is empty"),
        (b"\n \n\n", "only blank lines"),
        (b"\x89PNG\r\n\x1a\n", "is a PNG picture"),
        (b"RIFF\x10\0\0\0WAVE", "is a RIFF file"),
        (b"PK\x03\x04abc", "is a zip archive"),
        (b"abc\0def\n", "has NUL bytes"),
        (b"<?xml version='1.0'?>\n<a/>\n", "is XML or HTML"),
        (json.dumps({"data": [{"text": "x"}]}, indent=1).encode(), "one JSON document. Write one object per line"),
        (b'[{"text": "x"},\n {"text": "y"}]\n', "one JSON document"),
        (b'{"text": "x"}\n\n{"text": "y"}\n{"text": "z"\n', ":4 is not a complete JSON object, unlike most lines"),
        (
            b"pos\tso good\n\nneg\tso bad\nneg\tno\tgood\n" + b"pos\twell done\n" * 8,
            ":4 must have 2 tab-separated fields like 10 of 11 lines, got 3. ",
        ),
        (b"love\tsex\t6.77\ntiger\tcat\t7.35\n", "has lines with 3 tab-separated fields"),
        (b"1\tS\tNP VP\n2\tNP\n1\tX\tY\tZ\n", "has lines with 2 or 3 or 4 tab-separated fields"),
        (b"1,2,3\n4,5,6\n7,8,9\n", "almost only numbers"),
    ],
)
def test_unknown_format_has_a_reason(content: bytes, why: str, tmp_path: Path) -> None:
    found = detect_format(written(tmp_path, content))
    assert found.format == "unknown"
    assert why in found.why
    assert str(tmp_path / "file") in found.why


def test_a_folder_is_unknown_or_a_dataset(tmp_path: Path) -> None:
    assert detect_format(tmp_path).format == "unknown"
    (tmp_path / "dataset_dict.json").write_text("{}")
    assert detect_format(tmp_path).format == "datasets"


def test_missing_file_raises_error(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="File not found"):
        detect_format(tmp_path / "x")


def test_file_sorted_by_label_is_detected(tmp_path: Path) -> None:
    words = joined([f"{label} {text}" for label in ("neg", "pos") for text in sentences(8000)])
    assert len(words) > 2 * HEAD_BYTES + 2**17
    assert detect_format(written(tmp_path, words)).format == "kim"
    assert detect_format(written(tmp_path, words.replace("neg ", "", 1))).format == "text"


def test_a_sample_is_bounded(tmp_path: Path) -> None:
    for content, format in (("word " * 1_000_000, "text"), ('{"text": "' + "word " * 1_000_000 + '"}', "jsonl")):
        assert detect_format(written(tmp_path, content)).format == format


def test_every_format_has_a_rule() -> None:
    signs = {**BINARY_SIGNS, **TEXT_SIGNS}
    assert {name: FORMATS[name].recognize for name in FORMATS} == signs
    assert all(FORMATS[name].name == name for name in FORMATS)


# --- reading labeled texts -----------------------------------------------------------------------------------------


def test_reading_recognizes_and_counts(tmp_path: Path) -> None:
    path = written(tmp_path, "a\tone two\n\nb\tthree four\na\t \na\tfive six\n")
    tally = ReadCounter()
    found = list(read_examples(path, tally=tally))
    assert [(e.labels, e.text, e.place.line) for e in found] == [
        (("a",), "one two", 1),
        (("b",), "three four", 3),
        (("a",), "five six", 5),
    ]
    assert tally.counts(used=len(found)).sentence() == ("read 5; used 3; dropped 2 (2 empty), listed in dropped.tsv")
    assert [d.place.line for d in tally.dropped] == [2, 4]


def test_nothing_is_dropped_without_counter(tmp_path: Path) -> None:
    path = written(tmp_path, "a\tone two\n\nb\tthree four\n")
    assert [(e.text, e.labels) for e in read_examples(path)] == [("one two", ("a",)), ("", ()), ("three four", ("b",))]


def test_reading_with_options_and_encoding(tmp_path: Path) -> None:
    path = written(tmp_path, "text,label,kind\ncafé,x|y,z\n".encode("latin-1"))
    (example,) = read_examples(path, "csv", options={"separator": "|"}, encoding="latin-1")
    assert (example.text, example.labels) == ("café", ("x", "y"))
    (example,) = read_examples(path, options={"label_column": "kind"}, encoding="latin-1")
    assert example.labels == ("z",)


@pytest.mark.parametrize("delimiter", list("\t,;|"))
def test_named_columns_select_a_table(delimiter: str, tmp_path: Path) -> None:
    rows = [("what", "kind"), ("one text", "x"), ("two texts", "y")]
    path = written(tmp_path, joined([delimiter.join(row) for row in rows]))
    found = list(read_examples(path, options={"text_column": "what", "label_column": "kind"}))
    assert [(e.text, e.labels) for e in found] == [("one text", ("x",)), ("two texts", ("y",))]


def test_named_table_keeps_its_delimiter(tmp_path: Path) -> None:
    path = written(tmp_path, "text;label\none, two;x\n")
    assert [(e.text, e.labels) for e in read_examples(path, "csv")] == [("one, two", ("x",))]


def test_unknown_option_of_format_raises_error(tmp_path: Path) -> None:
    path = written(tmp_path, "0 a good film\n1 a bad film\n")
    problem = (
        r"was read as format 'kim', which has no option 'text_column': known are 'encoding', 'separator'\. Remove it"
    )
    with pytest.raises(FormatError, match=problem):
        list(read_examples(path, options={"text_column": "x"}))


@pytest.mark.parametrize(
    "content", ["one text\nand two\n", "text,label\none text,a\nand two,b\n", "a\tone text\nb\tand two\n"]
)
def test_reading_without_labels(content: str, tmp_path: Path) -> None:
    found = list(read_examples(written(tmp_path, content), labeled=False))
    assert [(e.text, e.labels) for e in found] == [("one text", ()), ("and two", ())]


def test_files_without_labeled_texts_raise_error(tmp_path: Path) -> None:
    path = written(tmp_path, "just some text\nand more of it\n")
    with pytest.raises(FormatError, match=r"was read as plain text .* which has no labeled texts"):
        list(read_examples(path))
    with pytest.raises(FormatError, match=r"Cannot detect the format of .*file: .* is empty"):
        list(read_examples(written(tmp_path, "")))
    with pytest.raises(UnknownNameError, match="no format is called 'cvs': did you mean 'csv'"):
        list(read_examples(path, "cvs"))


# --- the evaluation data --------------------------------------------------------------------------------------------

EXPECTED = {
    "conll2000_chunking/test.txt": ("columns", 2012),
    "multi30k_en_de/val.de": ("text", 1014),
    "ptb_sample_brackets/wsj_0001-0199.mrg": ("brackets", 3914),
    "sst_trees/dev.txt": ("brackets", 1101),
    "text_classification/rt-polarity.all": ("kim", 10662),
    "text_classification/stsa.binary.train": ("kim", 6920),
    "text_classification/stsa.fine.test": ("kim", 2210),
    "tinyshakespeare/input.txt": ("text", 40000),
    "transliteration_ar_en/ar2en-train.txt": ("parallel", 12877),
    "ud_czech_cltt/cs_cltt-ud-test.conllu": ("conllu", 338),
    "ud_english_ewt/en_ewt-ud-train-full.conllu": ("conllu", 12544),
    "ud_english_ewt/en_ewt-ud-dev.conllu": ("conllu", 2001),
    "ud_english_ewt/en_ewt-ud-test.conllu": ("conllu", 2077),
    "wikitext2_word/wiki.valid.tokens": ("text", 3760),
    "wnut17_ner/wnut17-train.conll": ("columns", 3394),
    "wnut17_ner/wnut17-dev.conll": ("columns", 1009),
    "wnut17_ner/wnut17-test.conll": ("columns", 1287),
    "images/digits_8x8.csv": ("unknown", None),
    "xquad/xquad.en.json": ("unknown", None),
    "word_analogy/EN-WS-353-ALL.txt": ("unknown", None),
    "images/brick.png": ("unknown", None),
}


@pytest.mark.data
@pytest.mark.parametrize("name", EXPECTED)
def test_real_files_are_recognized_and_counted(name: str, real_data: Path) -> None:
    path = real_data / name
    if not path.exists():
        pytest.skip(f"{name} is not there")
    format, count = EXPECTED[name]
    found = detect_format(path)
    assert found.format == format
    if count is not None:
        assert sum(1 for _ in FORMATS[format].read(path, **found.options)) == count


@pytest.mark.data
def test_real_universal_dependencies_come_back_byte_for_byte(real_data: Path, tmp_path: Path) -> None:
    from catena.data.readers import conllu

    for path in sorted(real_data.glob("ud_*/*.conllu")):
        if path.stat().st_size < 2_000_000:
            conllu.write(tmp_path / "copy", conllu.read(path))
            assert (tmp_path / "copy").read_bytes() == path.read_bytes()
