from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from catena.data.audio import write_wav
from catena.data.findings import Finding
from catena.data.inspection import FileReport, Report, inspect
from catena.data.label_findings import LabelTroubles


def examine(folder: Path, *contents: str | bytes, names: tuple[str, ...] = ("train", "dev", "test")) -> Report:
    paths = []
    for content, name in zip(contents, names, strict=False):
        path = folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        paths.append(path)
    return inspect(paths)


def found(findings: tuple[Finding, ...], kind: str) -> Finding:
    (finding,) = [f for f in findings if f.kind == kind]
    return finding


def kinds(report: FileReport) -> set[str]:
    return {finding.kind for finding in report.findings}


GOOD = "pos\ta good film\nneg\ta bad film\npos\tfine and long and good\nneg\tdull\n"


def test_a_healthy_file(tmp_path: Path) -> None:
    (report,) = examine(tmp_path, GOOD).files
    assert (report.format, report.n_examples, report.n_lines) == ("tsv", 4, 4)
    assert report.n_bytes == len(GOOD)
    assert report.labels == {"pos": 2, "neg": 2}
    assert (report.words["min"], report.words["median"], report.words["max"]) == (1, 3.0, 5)
    assert report.characters["max"] == len("fine and long and good")
    assert report.findings == ()
    said = examine(tmp_path, GOOD).lines()
    assert said[0] == f"{tmp_path / 'train'}: tsv"
    assert "  4 examples, 4 lines, 67 bytes" in said
    assert "  words: 1 to 5, median 3, mean 3.0" in said
    assert said[-1] == "  no problems found"


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("x.csv", "en,de\nHe is here.,Er ist hier.\n", "pairs of texts, source = 'en', target = 'de'"),
        ("x.csv", '"Yes, he is.",Er ist es.\n', "pairs of texts, source = column 1, target = column 2"),
        ("x.tsv", "question\tanswer\nWhen will it be?\tNow.\n", "context = 'question', response = 'answer'"),
        ("x.jsonl", '{"id": 1, "en": "He is here.", "de": "Er ist hier."}\n', "source = 'en', target = 'de'"),
    ],
)
def test_tables_of_pairs_are_not_unlabeled_texts(name: str, text: str, why: str, tmp_path: Path) -> None:
    (report,) = examine(tmp_path, text, names=(name,)).files
    assert (f"x.{report.format}", report.n_examples, kinds(report)) == (name, 1, {"too-few"})
    assert report.why.endswith(why)


@pytest.mark.parametrize(
    ("kind", "bad", "good"),
    [
        ("encoding", b"caf\xe9", "café".encode()),
        ("replacement", "caf\ufffd".encode(), b"caf?"),
        ("mojibake", "cafÃ©".encode(), "NÃO, Ã É".encode()),
        ("mojibake", "donâ€™t".encode(), "don’t, pâté".encode()),
        ("mojibake", "ÐŸÑ€Ð¸".encode(), "При".encode()),
        ("control", b"a\x07b", b"a b"),
        ("control", "a\u2028b".encode(), "a\u2010b".encode()),
        ("invisible", "a\u200bb".encode(), "a\u00a0b".encode()),
        ("bidi", "a\u202eb".encode(), "a\u05d0b".encode()),
        ("bidi", "a\u2066b".encode(), "a\u200db".encode()),
        ("long", b"x" * 10_001, b"x" * 10_000),
    ],
)
def test_broken_characters_are_found_with_their_lines(kind: str, bad: bytes, good: bytes, tmp_path: Path) -> None:
    lines = [b"good %d" % i for i in range(30)]
    for i in (3, 8, 11, 12, 20, 25, 29):
        lines[i] = bad + b" %d" % i if kind != "long" else bad
    (report,) = examine(tmp_path, b"\n".join(lines)).files
    finding = found(report.findings, kind)
    assert (finding.count, finding.lines) == (7, (4, 9, 12, 13, 21, 26, 30))
    assert str(finding).endswith(": lines 4, 9, 12, 13, 21, 26, 30")
    assert report.n_examples == 30
    (report,) = examine(tmp_path, b"\n".join([b"one", good, b"two"])).files
    assert kind not in kinds(report)


def test_nul_bytes_are_found_with_their_lines(tmp_path: Path) -> None:
    (report,) = examine(tmp_path, (b"fine " * 100 + b"\n") * 400 + b"b\0d\nfine\n").files
    dropped = found(report.findings, "dropped")
    assert (dropped.message, dropped.lines) == ("1 dropped, with a NUL byte", (401,))
    assert (report.n_lines, report.n_read, report.n_examples) == (402, 402, 401)


def test_blank_lines_count_where_they_mean_nothing(tmp_path: Path) -> None:
    (report,) = examine(tmp_path, GOOD + "\n \n").files
    assert found(report.findings, "empty").lines == (5, 6)
    (report,) = examine(tmp_path, "a O\n\nb B-X\n\n").files
    assert report.format == "columns"
    assert "empty" not in kinds(report)


def test_duplicates_and_conflicts(tmp_path: Path) -> None:
    text = "a\tone two\nb\tthree four\na\tone two\nb\tone two\nb\tthree four\nb\tfive\n"
    (report,) = examine(tmp_path, text).files
    assert found(report.findings, "duplicate").lines == (3, 5)
    assert found(report.findings, "conflict").lines == (4,)
    assert found(report.findings, "conflict").message == "a text occurs earlier with other labels"


def test_overlap_between_files_is_reported_with_lines(tmp_path: Path) -> None:
    train = GOOD
    dev = "pos\tnew one here\nneg\ta bad film\nneg\ta bad film\npos\tdull\npos\ta good film\n"
    report = examine(tmp_path, train, dev)
    finding = found(report.findings, "overlap")
    assert finding.count == 3
    assert (
        f"3 texts of {tmp_path / 'dev'} (75.0% of its distinct texts) also occur in {tmp_path / 'train'}"
        in finding.message
    )
    assert finding.message.endswith("the pairs of lines are 2 and 2, 4 and 4, 1 and 5")
    assert found(examine(tmp_path, train, "pos\tdull\nneg\tother long thing\n").findings, "overlap").message.startswith(
        "1 text of"
    )
    assert examine(tmp_path, train, "pos\tquite new\nneg\tother thing\n").findings == ()


def test_labels_missing_in_training_are_reported(tmp_path: Path) -> None:
    report = examine(tmp_path, GOOD, "pos\tone of these\nmeh\ttwo of these\nhm\tthree of it\n")
    finding = found(report.findings, "unseen-label")
    assert (
        finding.message == f"2 labels of {tmp_path / 'dev'} not in {tmp_path / 'train'}: 'meh' (line 2), 'hm' (line 3)"
    )


def test_imbalance_rare_and_similar_labels(tmp_path: Path) -> None:
    lines = [f"often\ttext number {i}" for i in range(12)] + ["Often\tanother text", "rare\tone of its kind"]
    (report,) = examine(tmp_path, "\n".join(lines)).files
    assert "'often' has 12 texts and 'rare' has 1, 1 to 12" in found(report.findings, "imbalance").message
    rare = found(report.findings, "rare")
    assert (rare.count, rare.lines) == (2, (13, 14))
    assert (
        found(report.findings, "similar-labels").message
        == "the labels 'often' and 'Often' differ only in case or punctuation"
    )
    (report,) = examine(tmp_path, "\n".join([*lines[:10], "b\tother text"])).files
    assert "imbalance" not in kinds(report)
    (report,) = examine(tmp_path, "\n".join(lines[:10])).files
    assert found(report.findings, "one-label").message.startswith("every text has the same label, 'often'")
    assert not report.is_usable


def test_labels_without_text_and_sources_without_target(tmp_path: Path) -> None:
    (report,) = examine(tmp_path, GOOD + "pos\t\nneg\t \n").files
    assert found(report.findings, "empty").lines == (5, 6)
    (report,) = examine(tmp_path, "Baum\ttree\nHand\t\nFuß\tfoot\n").files
    assert (report.format, report.task) == ("tsv", "transduce")
    dropped = found(report.findings, "dropped")
    assert (dropped.message, dropped.lines) == ("1 dropped, with an empty target", (2,))


# --- tags -----------------------------------------------------------------------------------------------------------


def column_file(tags: str) -> str:
    return "".join(f"w{i} {tag}\n" if tag else "\n" for i, tag in enumerate(tags.strip("\n").split("\n")))


def test_iob2_violations_have_their_lines(tmp_path: Path) -> None:
    tags = "B-LOC\nI-LOC\nO\nI-LOC\n\nI-PER\nB-PER\nI-LOC\nI-LOC\n"
    (report,) = examine(tmp_path, column_file(tags)).files
    finding = found(report.findings, "bio")
    assert (finding.count, finding.lines) == (3, (4, 6, 8))
    assert "tags in column 2 violate IOB2" in finding.message


def test_missing_sentence_breaks_are_reported(tmp_path: Path) -> None:
    rows = "call O\nAnna B-PER\n"
    (report,) = examine(tmp_path, rows * 60).files
    assert found(report.findings, "one-sentence").message.startswith("there is no blank line between sentences")
    for content in (rows * 40, (rows + "\n") * 60):
        (report,) = examine(tmp_path, content).files
        assert "one-sentence" not in kinds(report)


def test_iob1_is_distinguished_from_invalid_iob2(tmp_path: Path) -> None:
    (report,) = examine(tmp_path, column_file("I-LOC\nI-LOC\nB-LOC\nO\n\nI-PER\nO\n")).files
    assert "bio" not in kinds(report)
    assert "the tags in column 2 are IOB1: I- begins 2 chunks" in found(report.findings, "iob1").message


def test_bioes_violations_have_their_lines(tmp_path: Path) -> None:
    tags = "B-X\nI-X\nE-X\nS-Y\nO\n\nB-X\nO\n\nE-X\n\nB-X\nE-Y\n\nO\nB-X\n"
    (report,) = examine(tmp_path, column_file(tags)).files
    finding = found(report.findings, "bio")
    assert finding.lines == (8, 10, 13, 16)
    assert "violate BIOES" in finding.message


def test_columns_without_span_tags_are_not_checked(tmp_path: Path) -> None:
    (report,) = examine(tmp_path, "a DT O\nb NN I-X\n\nc I-Z O\n").files
    assert [f.message for f in report.findings if f.kind in ("bio", "iob1", "io")] == [
        "the tags in column 3 have no B (IO): neighbors of one type are merged into one chunk"
    ]


# --- files that cannot be examined ----------------------------------------------------------------------------------


def test_missing_or_binary_files_become_findings(tmp_path: Path) -> None:
    (tmp_path / "picture").write_bytes(b"\x89PNG\r\n\x1a\n\0\0")
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "cut.gz").write_bytes(b"\x1f\x8b\x08\x00")
    names = ["gone", "picture", "empty", "cut.gz", ""]
    report = inspect([tmp_path / name for name in names])
    messages = [[(f.kind, f.message) for f in file.findings] for file in report.files]
    assert all(len(found) == 1 for found in messages), messages
    assert not report.is_usable
    assert "File not found" in messages[0][0][1]
    assert "is a PNG picture" in messages[1][0][1]
    assert "is empty" in messages[2][0][1]
    assert "is truncated" in messages[3][0][1]
    assert "is a folder" in messages[4][0][1]
    assert {file.format for file in report.files} == {"unknown"}
    assert json.loads(json.dumps(report.to_dict())) == report.to_dict()
    assert report.lines()


def test_all_invalid_lines_are_all_found_in_one_run(tmp_path: Path) -> None:
    good = "".join(f"{'a' * 300}{i} b{i} O\n\n" for i in range(500))
    (report,) = examine(tmp_path, good + "ragged O\n\nfine b O\n\nragged\n").files
    findings = [finding for finding in report.findings if finding.kind == "dropped"]
    assert [(finding.message, finding.lines) for finding in findings] == [
        ("1 dropped, with a row of 2 fields instead of 3", (1001,)),
        ("1 dropped, with a row of 1 field instead of 3", (1005,)),
    ]
    assert (report.n_read, report.n_examples) == (503, 501)


def test_table_without_labels_is_inspected(tmp_path: Path) -> None:
    (report,) = examine(tmp_path, "id,text\n1,hello there\n2,and you\n", names=("x.csv",)).files
    assert (report.format, report.n_examples, kinds(report)) == ("csv", 2, {"task"})
    assert "catena train lm" in found(report.findings, "task").message


def test_unprintable_labels_are_handled(tmp_path: Path) -> None:
    lines = [json.dumps({"text": f"text {i}", "label": "a\nb\x1b[31m"}) for i in range(3)]
    report = examine(tmp_path, "\n".join(lines))
    assert report.files[0].labels == {"a\nb\x1b[31m": 3}
    assert all(line.isprintable() for line in report.lines())
    assert any("\\x1b[31m" in line for line in report.lines())


def test_parallel_files_are_detected(tmp_path: Path) -> None:
    report = examine(tmp_path, "a b\nc d\n", "e f\ng h\n", names=("x.en", "x.de"))
    assert "have 2 and 2 lines: they can be read as parallel text" in found(report.findings, "parallel").message
    report = examine(tmp_path, "a b\nc d\n", "e f\n", names=("x.en", "x.de"))
    assert "have 2 and 1 lines: they cannot" in found(report.findings, "parallel").message


def test_dataset_splits_are_inspected_separately(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    for split, text in (("train", "one text"), ("test", "one text")):
        (tmp_path / split).mkdir()
        table = pa.table({"text": [text, "more"], "label": ["a", "b"]})
        with pa.ipc.new_stream(str(tmp_path / split / "data.arrow"), table.schema) as writer:
            writer.write_table(table)
        (tmp_path / split / "state.json").write_text('{"_data_files": [{"filename": "data.arrow"}]}')
    (tmp_path / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    report = inspect([tmp_path])
    assert [(Path(f.path).name, f.n_examples) for f in report.files] == [("train", 2), ("test", 2)]
    assert found(report.findings, "overlap").count == 2


def test_trees_and_universal_dependencies_are_counted(tmp_path: Path) -> None:
    (report,) = examine(tmp_path, "(3 (2 good) (2 film))\n(1 (2 bad) (2 film))\n").files
    assert (report.task, report.labels, report.words["max"]) == ("classify", {"3": 1, "1": 1}, 2)
    (report,) = examine(tmp_path, "1\tRain\train\tNOUN\t_\t_\t0\troot\t_\t_\n\n").files
    assert (report.label_kind, report.labels) == ("universal tags", {"NOUN": 1})


def test_the_report_is_plain_lines_and_json(tmp_path: Path) -> None:
    report = examine(tmp_path, GOOD * 2, GOOD)
    said = report.lines()
    assert all(isinstance(line, str) and "\n" not in line for line in said)
    assert "between the files" in said
    assert any(re.fullmatch(r" +pos +4 #+", line) for line in said)
    assert json.loads(json.dumps(report.to_dict()))["files"][0]["findings"][0]["kind"] == "duplicate"


@pytest.mark.data
def test_real_files_give_real_findings(real_data: Path) -> None:
    folder = real_data / "wnut17_ner"
    report = inspect([folder / "wnut17-dev.conll", folder / "wnut17-test.conll"])
    assert [file.n_examples for file in report.files] == [1009, 1287]
    assert not any(finding.kind == "bio" for file in report.files for finding in file.findings)
    assert report.files[0].labels["B-person"] == 470


# --- findings about texts and labels --------------------------------------------------------------------------------


def labeled(rows: list[tuple[str, str]]) -> str:
    return "text,label\n" + "".join(f'"{text}",{label}\n' for text, label in rows)


def rows_of(n: int = 20) -> list[tuple[str, str]]:
    return [(f"sentence number {i} of many", "ab"[i % 2] * 3) for i in range(n)]


def examined(tmp_path: Path, content: str, name: str = "x.csv", **options) -> FileReport:
    (tmp_path / name).write_text(content, encoding="utf-8")
    return inspect([tmp_path / name], **options).files[0]


@pytest.mark.parametrize(
    ("kind", "change", "count"),
    [
        ("html", lambda text, label, i: (f"<p>{text}</p>&nbsp;", label), 20),
        ("html", lambda text, label, i: (f"{text} &amp; more" if i == 3 else text, label), 1),
        (
            "near-duplicate",
            lambda text, label, i: (["same old Text", "Same, old text!"][i] if i < 2 else text, label),
            1,
        ),
        ("leak", lambda text, label, i: (f"{text} ({label.upper()})", label), 20),
        ("quantity", lambda text, label, i: (text, f"{i / 7:.2f}"), 1),
        ("joined-labels", lambda text, label, i: (text, "aaa;bbb" if i % 5 == 0 else label), 1),
        ("lists-in-cells", lambda text, label, i: (text, f"['{label}']"), 20),
        ("several-labels", lambda text, label, i: (text, "\"['a', 'b']\"" if i == 4 else label), 1),
        ("invisible-labels", lambda text, label, i: (text, label + "\u200b" * (i == 4)), 1),
        ("dev-one-label", lambda text, label, i: (text, "aaa" if i else "bbb"), 1),
        ("rare", lambda text, label, i: (text, "ccc" if i == 7 else label), 1),
        ("special-token", lambda text, label, i: (text.replace("many", "<unk>"), label), 20),
    ],
)
def test_problems_of_texts_and_labels_are_found(kind: str, change, count: int, tmp_path: Path) -> None:
    rows = [change(*row, i) for i, row in enumerate(rows_of())]
    content = "text,label\n" + "".join(f'"{text}",{label}\n' for text, label in rows)
    report = examined(tmp_path, content)
    assert found(report.findings, kind).count == count
    assert kind not in kinds(examined(tmp_path, labeled(rows_of())))


def test_healthy_table_has_no_findings(tmp_path: Path) -> None:
    assert examined(tmp_path, labeled(rows_of())).findings == ()


def test_joined_labels_are_read_with_their_separator(tmp_path: Path) -> None:
    content = labeled([(text, "aaa;bbb" if i % 5 == 0 else label) for i, (text, label) in enumerate(rows_of())])
    report = examined(tmp_path, content, label_separator=";")
    assert set(report.labels) == {"aaa", "bbb"}
    assert report.is_usable


def test_columns_and_task_of_the_caller_are_used(tmp_path: Path) -> None:
    content = "what,kind,other\n" + "".join(f"a text of words {i},{'xy'[i % 2]},{'uvw'[i % 3]}\n" for i in range(20))
    assert not examined(tmp_path, content).is_usable
    report = examined(tmp_path, content, columns={"text": "what", "label": "kind"})
    assert (report.task, report.n_examples, report.columns) == ("classify", 20, {"text": "'what'", "label": "'kind'"})
    assert report.is_usable
    report = examined(tmp_path, "one line\nand another\n", "x.txt", task="tag")
    assert "has no words with tags" in found(report.findings, "format").message


def test_texts_longer_than_the_limit_are_dropped(tmp_path: Path) -> None:
    rows = [(text if i != 4 else "word " * 2000, label) for i, (text, label) in enumerate(rows_of())]
    report = examined(tmp_path, labeled(rows), max_length=1500)
    assert report.dropped == {"longer than max_length=1500": 1}
    assert examined(tmp_path, labeled(rows), max_length=3000).n_examples == 20


def test_long_texts_are_noted_but_counted_as_the_default_model_reads_them(tmp_path: Path) -> None:
    """The models for few texts read whole documents, but no file in one line; networks read less."""
    lengths = {4: 2000, 5: 10_001}
    rows = [("word " * lengths[i] if i in lengths else text, label) for i, (text, label) in enumerate(rows_of())]
    report = examined(tmp_path, labeled(rows))
    assert (report.n_examples, report.dropped) == (19, {"longer than max_length=10000": 1})
    assert found(report.findings, "long-text").lines == (6,)


@pytest.mark.parametrize(("name", "longest"), [("x.mrg", 200), ("x.conll", 1000)])
def test_long_sentences_are_dropped_as_in_training(name: str, longest: int, tmp_path: Path) -> None:
    def sentence(n: int) -> str:
        if name == "x.mrg":
            return "(S " + " ".join(f"(N w{i})" for i in range(n)) + ")\n"
        return "".join(f"w{i}\t{'B-X' if i % 2 else 'O'}\n" for i in range(n)) + "\n"

    (tmp_path / name).write_text("".join(sentence(n) for n in (3, longest, longest + 1, 4)))
    (report,) = inspect([tmp_path / name]).files
    assert (report.n_examples, report.dropped) == (3, {f"longer than max_length={longest}": 1})


def test_wrapped_prose_is_found_and_joined(tmp_path: Path) -> None:
    words = ("It was a dark night in the old town and the rain came down on the roofs . Nobody heard it . " * 9).split()
    lines, line = [], ""
    for word in words:
        if len(line) + 1 + len(word) > 40:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}".strip()
    text = "\n".join([*lines, line, "", "The end of it ."]) + "\n"
    assert "wrapped" in kinds(examined(tmp_path, text, "x.txt"))
    assert examined(tmp_path, text, "x.txt", paragraphs=True).n_examples == 2
    sentences = "".join(f"the dog number {i} sleeps {'here ' * (i % 5)}\n" for i in range(40))
    assert "wrapped" not in kinds(examined(tmp_path, sentences, "x.txt"))


def test_words_with_slashes_are_not_plain_text(tmp_path: Path) -> None:
    text = "The/DT dog/NN sleeps/VBZ ./.\nA/DT cat/NN eats/VBZ fish/NN ./.\n" * 3
    report = examined(tmp_path, text, "x.txt")
    assert (report.task, report.n_examples, report.n_words) == ("tag", 6, 27)
    assert "slashed" in kinds(examined(tmp_path, text, "x.txt", task="lm"))


def test_all_broken_heads_are_found(tmp_path: Path) -> None:
    def sentence(heads: str) -> str:
        rows = enumerate(heads.split(), start=1)
        return "".join(f"{i}\tw{i}\tw\tX\t_\t_\t{head}\tx\t_\t_\n" for i, head in rows) + "\n"

    heads = ["2 0 2", "2 0 9", "2 3 2", "0 0 1", "0 2 1", "0 _ 1", "0 1 1"]
    report = examined(tmp_path, "".join(map(sentence, heads)), "x.conllu")
    assert report.dropped == {
        "with a head outside the sentence": 1,
        "with a cycle of heads": 1,
        "with 2 roots": 1,
        "with a word that is its own head": 1,
    }
    dropped = [finding.lines for finding in report.findings if finding.kind == "dropped"]
    assert dropped == [(7,), (9,), (14,), (18,)]
    assert found(report.findings, "heads").lines == (22,)
    assert report.n_examples == 3


def test_targets_in_another_file_are_read(tmp_path: Path) -> None:
    (tmp_path / "x.fr").write_text("un chien\n\nun chat\n")
    report = examined(tmp_path, "a dog\na bird\na cat\n", "x.en", target=tmp_path / "x.fr")
    assert (report.task, report.n_examples, report.dropped) == ("translate", 2, {"with an empty target": 1})
    (tmp_path / "x.fr").write_text("un chien\n")
    report = examined(tmp_path, "a dog\na bird\na cat\n", "x.en", target=tmp_path / "x.fr")
    assert "they must be parallel line by line" in found(report.findings, "format").message


def test_the_training_file_as_dev_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text(labeled(rows_of()))
    report = inspect([tmp_path / "x.csv", tmp_path / "x.csv"])
    assert "is the same file as" in found(report.findings, "same-file").message


@pytest.mark.parametrize(
    ("tags", "kind", "words"),
    [
        ("B-X I-X O U-Y", "scheme", "BILOU"),
        ("B-X E-X O S-Y", "scheme", "BIOES"),
        ("I-X I-X O I-Y", "io", "have no B"),
    ],
)
def test_tag_schemes_are_named(tags: str, kind: str, words: str, tmp_path: Path) -> None:
    content = "".join(f"w{i}\t{tag}\n" for i, tag in enumerate(tags.split())) + "\n"
    assert words in found(examined(tmp_path, content * 3, "x.conll").findings, kind).message


def test_word_vectors_are_counted(tmp_path: Path) -> None:
    content = "".join(f"{word} 0.1 -2.5 3 0.25 1e-3 7\n" for word in ("the", "a", "the", "dog"))
    report = examined(tmp_path, content, "x.txt")
    assert (report.format, report.task, report.n_examples) == ("vectors", None, 3)
    assert "1 duplicate word" in found(report.findings, "duplicate").message


def test_equal_numbers_as_labels_are_reported() -> None:
    troubles = LabelTroubles()
    for i, label in enumerate(["1", "1.0", "0", "1.5"] * 5):
        troubles.add(i, f"a text {i}", [label])
    finding = found(tuple(troubles.findings(multilabel=False, splits=False)), "similar-labels")
    assert finding.message == "the labels '1' and '1.0' are the same number"


def test_folders_of_pictures_and_sounds_are_inspected_as_they_are_read(tmp_path: Path) -> None:
    """Their files were looked for texts, and the inspection said that training would fail."""
    image = pytest.importorskip("PIL.Image")
    pytest.importorskip("soundfile")
    for label, value in (("dark", 10), ("light", 240)):
        (tmp_path / "pictures" / label).mkdir(parents=True)
        (tmp_path / "sounds" / label).mkdir(parents=True)
        for i in range(6):
            image.new("L", (9, 9), value + i).save(tmp_path / "pictures" / label / f"{i}.png")
            write_wav(tmp_path / "sounds" / label / f"{i}.wav", np.full(800, value / 300, np.float32), 8000)
    (tmp_path / "pictures" / "dark" / "x.png").write_bytes(b"\x89PNG\r\n\x1a\n damaged")
    (tmp_path / "sounds" / "dark" / "x.wav").write_bytes(b"RIFF damaged")
    for kind in ("pictures", "sounds"):
        (report,) = inspect([tmp_path / kind]).files
        assert (report.task, report.n_read, report.n_examples) == ("classify", 13, 12)
        assert report.labels == {"dark": 6, "light": 6}
        assert report.is_usable
        dropped = found(report.findings, "dropped")
        assert (dropped.count, "x." in dropped.message) == (1, True)
    rows = "".join(f"sounds/{label}/{i}.wav,{label}\n" for i in range(6) for label in ("dark", "light"))
    (tmp_path / "table.csv").write_text(f"file,label\n{rows}")
    (report,) = inspect([tmp_path / "table.csv"]).files
    assert "leak" not in kinds(report), "the name of a file is not a text that contains its label"
    (report,) = inspect([tmp_path / "sounds"], task="lm").files
    assert (report.task, report.n_examples, report.labels, report.is_usable) == ("lm", 12, {}, True)
