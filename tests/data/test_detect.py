"""Format detection: what each file is, in plain words, and the task that it implies."""

from __future__ import annotations

import gzip
import json
import os
import random
import struct
import time
from pathlib import Path

import pytest

from catena.data.detect import UNKNOWN, detect_format, detect_task
from catena.data.formats import FORMATS
from catena.data.readers.sample import HEAD_BYTES
from catena.data.reading import ReadCounter
from catena.data.tables import RECORD_FORMATS
from catena.errors import FormatError
from tests.data.readers.specimens import SPECIMENS, Specimen


def written(folder: Path, content: str | bytes, name: str = "file") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize("specimen", SPECIMENS, ids=lambda s: s.id)
def test_every_example_file_is_detected_and_read(specimen: Specimen, tmp_path: Path) -> None:
    for content in (specimen.text.encode(), gzip.compress(specimen.text.encode("utf-16"))):
        path = written(tmp_path, content)
        found = detect_format(path)
        assert (found.format, found.task) == (specimen.format, specimen.task)
        assert (
            sum(1 for _ in FORMATS[found.format].read(path, counter=ReadCounter(), **found.options)) == specimen.count
        )


SENTENCES = "the film is good and\nit was a long day for us\nnobody came to see it\nwhat a play this is\n"
WORDS = SENTENCES.split()


def sentences(n: int, seed: int = 0) -> list[str]:
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(3, 9))) for _ in range(n)]


def joined(lines: list[str]) -> str:
    return "".join(line + "\n" for line in lines)


@pytest.mark.parametrize(
    ("content", "format", "task"),
    [
        pytest.param(SENTENCES, "text", "lm", id="text"),
        pytest.param("(applause) thank you\n(laughter)\n", "text", "lm", id="text in brackets"),
        pytest.param("1 egg\n2 cups of flour\n3 spoons\n4 more\n", "text", "lm", id="numbered list"),
        pytest.param("- one thing\n- two things\n" * 20, "text", "lm", id="bullets"),
        pytest.param("Ann: hello you\nBob: good day sir\n" * 20, "dialogue", "converse", id="speakers"),
        pytest.param("Note: hello you\nNote: good day sir\n" * 20, "text", "lm", id="one speaker"),
        pytest.param("{not json\n", "text", "lm", id="brace"),
        pytest.param("[garbus] discards it\n", "text", "lm", id="square bracket"),
        pytest.param("S -> NP VP\nNP -> Det N\n", "text", "lm", id="grammar"),
        pytest.param("one\ntwo\nthree\n", "text", "lm", id="word list"),
        pytest.param("a b c d\ne f g h\n\ni j k l\nm n o p\n\nq r s t\n", "text", "lm", id="verse of equal lines"),
        pytest.param("pos a good film\nneg a bad film\nneg dull stuff\npos fine\n" * 3, "text", "lm", id="word labels"),
        pytest.param("DESC:manner how is it\nHUM:ind who is it\n" * 8, "unknown", None, id="TREC"),
        pytest.param("-1 a bad film\n+1 a good one\n-1 dull\n", "first-word", "classify", id="signed labels"),
        pytest.param("a good film\tpos\na bad film\tneg\nx y z\tneg\n", "tsv", "classify", id="label after"),
        pytest.param("book a flight\tfly me there\nplay a song\tsing it\n" * 5, "tsv", "classify", id="label of words"),
        pytest.param("__label__x hello\n", "fasttext", "classify", id="fasttext"),
        pytest.param("Kopf\thead\nHand\thand\nFuß\tfoot\n", "tsv", "transduce", id="word pairs"),
        pytest.param("EU B-ORG\nrejects O\n", "columns", "tag", id="one sentence"),
        pytest.param("a\tDT\nb\tNN\n\nc\tDT\n", "columns", "tag", id="part-of-speech tags"),
        pytest.param("# id 1\na _ O\n\n# id 2\nb _ B-X\n", "columns", "tag", id="columns with comments"),
        pytest.param("( (S\n (NN a)))\n", "brackets", "parse", id="brackets on many lines"),
        pytest.param("(S (N a) (V b))\n(S (N a) (V b)\n(S (N c))\n", "brackets", "parse", id="a bracket is missing"),
        pytest.param("(S (N a) (V b))\n(S (N a) (V b)))\n(S (N c))\n", "brackets", "parse", id="a bracket too many"),
        pytest.param("(3 (2 a) (1 b))\n(0 (1 c))\n", "brackets", "classify", id="sentiment trees"),
        pytest.param("(as we said\nit is (a bad) thing\n", "text", "lm", id="text with an open bracket"),
        pytest.param('{"a": 1, "b": "x"}\n{"a": 2, "b": "y"}\n', "jsonl", None, id="JSON without known keys"),
        pytest.param('{"id": 1, "utterance": "x y", "intent": "a"}\n' * 2, "jsonl", "classify", id="JSON lines"),
        pytest.param("label;text\na;one, two\nb;three\n", "csv", "classify", id="semicolons"),
        pytest.param('Sentiment , Review\n1,"two\nlines"\n0,x\n', "csv", "classify", id="CSV with a text of two lines"),
        pytest.param('text\tlabel\n"a ""quoted"" text"\tx\n"b"\ty\n', "tsv", "classify", id="quoted TSV"),
        pytest.param('sentence\tlabel\n"it \'s good" he says\t1\n"\t0\n', "tsv", "classify", id="plain quotes"),
        pytest.param("hi __eou__ hello __eou__\n" * 4, "dialogue", "converse", id="end of utterance"),
        pytest.param("a dog here ||| un chien\nno cat there ||| pas de chat\n", "csv", "transduce", id="bars"),
        pytest.param("The/DT dog/NN runs/VBZ\nA/DT cat/NN\n" * 3, "columns", "tag", id="slashes"),
        pytest.param("the 0.1 0.2 0.3 0.4 0.5\na 1 2 3 4 5\n", "vectors", None, id="vectors"),
        pytest.param("top T AA1 P\n" * 3, "dictionary", "transduce", id="dictionary with stress"),
        pytest.param("TOP T AA P\nTOP(2) T AO P\n", "dictionary", "transduce", id="dictionary with variants"),
        pytest.param("THE CAT SAT ON A MAT\nIT IS SO\n", "text", "lm", id="capitals"),
    ],
)
def test_format_and_task_are_detected(content: str, format: str, task: str | None, tmp_path: Path) -> None:
    found = detect_format(written(tmp_path, content))
    assert (found.format, found.task) == (format, task)
    assert "kim" not in found.why
    assert "tsv-label" not in found.why


REVIEWS = joined(["text,label", *(f"a review {i} of it,{'xy'[i % 2]}" for i in range(40))])


@pytest.mark.parametrize(
    ("name", "content", "format", "task"),
    [
        ("x.csv", joined([f'{i % 3},"{t}, or so",{i}' for i, t in enumerate(sentences(20))]), "csv", "classify"),
        ("x.csv.gz", "text\nhello there\nand you\n", "csv", "lm"),
        ("x.csv", "who,said\nann,hello to you my friend\nbob,good day to you\n", "csv", None),
        ("x.csv", REVIEWS + "one, two,x\n", "csv", "classify"),
        ("x.csv", REVIEWS + "no label\n", "csv", "classify"),
        ("x.txt", REVIEWS + "one, two,x\n", "csv", "classify"),
        ("x.csv", "just, a text\nwithout columns\nat, all, here\n", "csv", None),
        ("x.tsv", "text\tn\nhello you there\t1\nand more of it\t2\n", "tsv", None),
        ("x.conll", "New York\tB-LOC\nis\tO\n\n" * 20 + "big\tO\ncity\n\n", "columns", "tag"),
        ("x.conll", "a\tb\tc\nd\n\ne f g\nh\n\ni\n", "unknown", None),
        ("x.conllu", "no columns here\nat all\n", "unknown", None),
        ("x.tsv", "EU\tB-ORG\nsays\tO\n\nIt\tO\nis\tO\n\n" * 5, "columns", "tag"),
        ("x.json", "not json at all\n", "unknown", None),
        ("x.jsonl", "not json at all\n", "unknown", None),
        ("x.json", '[{"text": "a b", "label": "x"}]', "json", "classify"),
        ("x.json", '{"text": {"0": "a b", "1": "c d"}, "label": {"0": "x", "1": "y"}}', "json", "classify"),
        ("x.json", '{"columns": ["text", "label"], "index": [0], "data": [["a b", "x"]]}', "json", "classify"),
        ("x.json", '{"text": ["a b", "c d"], "label": ["x", "y"]}', "json", "classify"),
    ],
)
def test_the_name_of_the_file_decides(name: str, content: str, format: str, task: str | None, tmp_path: Path) -> None:
    data = gzip.compress(content.encode()) if name.endswith(".gz") else content
    found = detect_format(written(tmp_path, data, name))
    assert (found.format, found.task) == (format, task)


def test_few_bad_lines_do_not_change_the_format(tmp_path: Path) -> None:
    cases = {
        "fasttext": [f"__label__{'ab'[i % 2]} some text {i}" for i in range(40)],
        "first-word": [f"{i % 2} some text {i}" for i in range(40)],
        "tsv": [f"{'ab'[i % 2]}\tsome text {i}" for i in range(40)],
        "jsonl": [json.dumps({"text": f"some text {i}", "label": i % 2}) for i in range(40)],
    }
    for format, lines in cases.items():
        for odd in ("a line of another kind", ""):
            path = written(tmp_path, joined([*lines[:20], odd, *lines[20:]]))
            assert (detect_format(path).format, detect_format(path).task) == (format, "classify"), odd


def test_empty_label_does_not_make_pairs(tmp_path: Path) -> None:
    lines = [f"{'ab'[i % 2]}\t{text}" for i, text in enumerate(sentences(40))]
    lines[11] = "\t" + sentences(1)[0]
    assert detect_format(written(tmp_path, joined(lines))).task == "classify"


def test_first_words_that_may_be_labels_are_mentioned(tmp_path: Path) -> None:
    path = written(tmp_path, "pos a good film\nneg a bad film\nneg dull stuff\npos fine\n" * 3)
    assert "if its first words ('neg', 'pos') are labels, pass --input-format first-word" in detect_format(path).why
    path = written(tmp_path, "0 a good film\n1 a bad film\n1 dull stuff\n" * 3)
    assert detect_format(path).why == "label = first word of each line (2 labels: '0', '1')"


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "is empty"),
        (b"\n \n\n", "only blank lines"),
        (b"\x89PNG\r\n\x1a\n", "is a PNG picture"),
        (b"RIFF\x10\0\0\0WAVE", "is a RIFF file"),
        (b"abc\0def\n", "has NUL bytes"),
        (b"<?xml version='1.0'?>\n<a/>\n", "is XML"),
        (b"<!doctype html><html><p>x</p></html>\n", "is a web page"),
        (b"1,2,3\n4,5,6\n7,8,9\n", "almost only numbers"),
        (b"L1 +++$+++ u0 +++$+++ m0 +++$+++ ANN +++$+++ hi\n" * 3, "Cornell Movie-Dialogs"),
        (b"1\tS\tNP VP\n2\tNP\n1\tX\tY\tZ\n", "has lines with 2 or 3 or 4 tab-separated fields"),
    ],
)
def test_unknown_format_has_a_reason(content: bytes, why: str, tmp_path: Path) -> None:
    path = written(tmp_path, content)
    found = detect_format(path)
    assert (found.format, found.task) == ("unknown", None)
    assert why in found.why
    assert str(path) in found.why
    with pytest.raises(FormatError, match=why.replace("+", r"\+")):
        detect_task(path)


def test_columns_that_no_task_reads_are_listed(tmp_path: Path) -> None:
    rows = "".join(f"{i},{i * 2},{i * 3}\n" for i in range(9))
    with pytest.raises(FormatError, match=r"only 'a', 'b', 'c'.*--value-column c"):
        detect_task(written(tmp_path, "a,b,c\n" + rows, "x.csv"))
    path = written(tmp_path, "love\tsex\t6.77\ntiger\tcat\t7.35\n")
    with pytest.raises(FormatError, match="has 3 columns without a header"):
        detect_task(path)


def test_folders_are_datasets_or_labels_or_unknown(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    assert detect_format(tmp_path / "a").format == "unknown"
    (tmp_path / "a" / "dataset_dict.json").write_text("{}")
    assert detect_format(tmp_path / "a").format == "datasets"
    for label in ("pos", "neg"):
        (tmp_path / "imdb" / "train" / label).mkdir(parents=True)
        (tmp_path / "imdb" / "train" / label / "0.txt").write_text("a film\n")
    found = detect_format(tmp_path / "imdb" / "train")
    assert (found.format, found.task) == ("folders", "classify")
    assert f"Pass one of them: {tmp_path / 'imdb' / 'train'}" in detect_format(tmp_path / "imdb").why


def test_missing_file_raises_error(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="File not found"):
        detect_format(tmp_path / "x")


def test_file_sorted_by_label_is_detected(tmp_path: Path) -> None:
    for template, format in (("{}\t{}", "tsv"), ("{} {}", "first-word")):
        words = joined([template.format(label, text) for label in ("0", "1") for text in sentences(8000)])
        assert len(words) > 2 * HEAD_BYTES + 2**17
        found = detect_format(written(tmp_path, words))
        assert (found.format, found.task) == (format, "classify")
        assert "2 labels: '0', '1'" in found.why


def test_a_sample_is_bounded(tmp_path: Path) -> None:
    for content, format in (("word " * 1_000_000, "text"), ('{"text": "' + "word " * 1_000_000 + '"}', "jsonl")):
        assert detect_format(written(tmp_path, content)).format == format


def test_every_format_has_a_reader() -> None:
    assert set(RECORD_FORMATS) <= set(FORMATS)
    assert all(FORMATS[name].name == name for name in FORMATS)


def test_stream_of_arrow_is_not_text(tmp_path: Path) -> None:
    found = detect_format(written(tmp_path, b"\xff\xff\xff\xff" + struct.pack("<i", 8) + bytes(8)))
    assert found.format == "parquet"


# --- the evaluation data --------------------------------------------------------------------------------------------

EXPECTED = {
    "conll2000_chunking/test.txt": ("columns", 2012),
    "multi30k_en_de/val.de": ("text", 1014),
    "ptb_sample_brackets/wsj_0001-0199.mrg": ("brackets", 3914),
    "sst_trees/dev.txt": ("brackets", 1101),
    "text_classification/rt-polarity.all": ("first-word", 10662),
    "text_classification/stsa.binary.train": ("first-word", 6920),
    "text_classification/stsa.fine.test": ("first-word", 2210),
    "tinyshakespeare/input.txt": ("text", 40000),
    "transliteration_ar_en/ar2en-train.txt": ("tsv", 12877),
    "ud_czech_cltt/cs_cltt-ud-test.conllu": ("conllu", 338),
    "ud_english_ewt/en_ewt-ud-train-full.conllu": ("conllu", 12544),
    "ud_english_ewt/en_ewt-ud-dev.conllu": ("conllu", 2001),
    "ud_english_ewt/en_ewt-ud-test.conllu": ("conllu", 2077),
    "wikitext2_word/wiki.valid.tokens": ("text", 3760),
    "wnut17_ner/wnut17-train.conll": ("columns", 3394),
    "wnut17_ner/wnut17-dev.conll": ("columns", 1009),
    "wnut17_ner/wnut17-test.conll": ("columns", 1287),
    "images/digits_8x8.csv": ("csv", None),
    "xquad/xquad.en.json": ("json", 1190),
    "word_analogy/EN-WS-353-ALL.txt": ("tsv", None),
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

    paths = [path for path in sorted(real_data.glob("ud_*/*.conllu")) if path.stat().st_size < 2_000_000]
    assert paths
    for path in paths:
        conllu.write(tmp_path / "copy", conllu.read(path))
        assert (tmp_path / "copy").read_bytes() == path.read_bytes()


@pytest.mark.parametrize(
    ("name", "kind"),
    [("a.yaml", "YAML"), ("de.po", "a message catalog of gettext"), ("film.srt", "subtitles with times")],
)
def test_markup_that_is_not_read_is_named(name: str, kind: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("- text: it rains\n  label: wet\n" * 5, encoding="utf-8")
    found = detect_format(tmp_path / name)
    assert found.format == UNKNOWN
    assert f"{name} is {kind}. " in found.why
    assert found.why.endswith("or pass --input-format text to read each of its lines as a text.")


def test_labels_before_a_colon_are_not_speakers(tmp_path: Path) -> None:
    lines = [f"{('spam', 'ham')[i % 3 > 0]}: buy number {i} now" for i in range(60)]
    (tmp_path / "a.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    found = detect_format(tmp_path / "a.txt")
    assert found.format == "text"
    assert "if its first words ('ham:', 'spam:') are labels" in found.why
    for before, after in (("spam", "Ann"), ("spam", "user")):
        (tmp_path / "a.txt").write_text("\n".join(lines).replace(before, after) + "\n", encoding="utf-8")
        assert detect_format(tmp_path / "a.txt").format == "dialogue"


def test_constant_column_is_not_the_label(tmp_path: Path) -> None:
    rows = [f'"{i % 2 * 4}","NO_QUERY","user{i}","a longer text with the number {i} in it"' for i in range(30)]
    (tmp_path / "a.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    assert "text = column 4, label = column 1" in detect_format(tmp_path / "a.csv").why


@pytest.mark.parametrize("age", [0, 60])
def test_file_that_is_written_again_is_detected_again(tmp_path: Path, age: int) -> None:
    path = tmp_path / "data"
    then = time.time() - age
    found = []
    for name, text in (("first", '{"text": "a", "label": "b"}'), ("second", "1\tTo be, or not to be")):
        for place in (path, tmp_path / name):
            place.write_text(text.ljust(40) + "\n", encoding="utf-8")
            os.utime(place, (then, then))
        then += age / 10
        found.append(detect_format(path).format)
        assert found[-1] == detect_format(tmp_path / name).format
    assert found[0] != found[1]


@pytest.mark.parametrize(
    "story",
    [
        "1 your persona: i like cats .\n2 hi {}\thello {}\n3 bye\tsee you\n",
        "1 Ann went {}\n2 Bob ran\n3 Who ran?\tBob\n",
    ],
)
def test_numbers_of_lines_in_dialogues_are_not_labels(story: str, tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text("".join(story.format(i, i) for i in range(20)), encoding="utf-8")
    assert detect_format(path).format == "unknown"
    assert "lines that are numbered in each dialogue" in detect_format(path).why
    path.write_text(
        "".join(f"{label} a text {i}\n" for i, label in enumerate([1, 2, 3, 3, 1, 2] * 9)), encoding="utf-8"
    )
    assert detect_format(path).task == "classify"


def test_repeated_column_name_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("text,label,label\n" + "".join(f"a text {i},{'xy'[i % 2]},{'uv'[i % 2]}\n" for i in range(9)))
    assert "with a header ('label' again in column 3): text = 'text', label = 'label'" in detect_format(path).why
    path.write_text("text,label,label.2\n" + "".join(f"a text {i},{'xy'[i % 2]},{'uv'[i % 2]}\n" for i in range(9)))
    assert "again" not in detect_format(path).why


@pytest.mark.parametrize("wrapped", [False, True])
def test_labels_that_are_other_sentences_are_targets(wrapped: bool, tmp_path: Path) -> None:
    """Sequence to sequence of doccano: a classifier of as many classes as texts was trained."""
    targets = [f"ein neuer Satz mit {i}" for i in range(20)]
    records = [{"id": i, "text": f"a text of {i}", "label": [one] if wrapped else one} for i, one in enumerate(targets)]
    path = tmp_path / "x.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    found = detect_format(path)
    assert found.task is None
    assert "--source-column text --target-column label" in found.why
    repeating = [{**record, "label": targets[i % 4]} for i, record in enumerate(records)]
    path.write_text("".join(json.dumps(record) + "\n" for record in repeating))
    assert detect_format(path).task == "classify"
