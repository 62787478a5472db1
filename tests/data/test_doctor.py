from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from catena.data.findings import Finding
from catena.data.inspection import FileReport, Report, inspect


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
    assert (report.format, report.n_examples, report.n_lines) == ("tsv-label", 4, 4)
    assert report.n_bytes == len(GOOD)
    assert report.labels == {"pos": 2, "neg": 2}
    assert (report.words["min"], report.words["median"], report.words["max"]) == (1, 3.0, 5)
    assert report.characters["max"] == len("fine and long and good")
    assert report.findings == ()
    said = examine(tmp_path, GOOD).lines()
    assert said[0] == f"{tmp_path / 'train'}: tsv-label"
    assert "  4 examples, 4 lines, 67 bytes" in said
    assert "  words: 1 to 5, median 3, mean 3.0" in said
    assert said[-1] == "  no problems found"


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("x.csv", "en,de\nHe is here.,Er ist hier.\n", "it has pairs of texts, by their names 'en' and 'de'"),
        ("x.csv", '"Yes, he is.",Er ist es.\n', "it has pairs of texts"),
        ("x.tsv", "question\tanswer\nWhen will it be?\tNow.\n", "by their names 'question' and 'answer'"),
        ("x.jsonl", '{"id": 1, "en": "He is here.", "de": "Er ist hier."}\n', "by their names 'en' and 'de'"),
    ],
)
def test_tables_of_pairs_are_not_unlabeled_texts(name: str, text: str, why: str, tmp_path: Path) -> None:
    (report,) = examine(tmp_path, text, names=(name,)).files
    assert (f"x.{report.format}", report.n_examples, report.findings) == (name, 1, ())
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
        ("long", b"x" * 10_001, b"x" * 10_000),
    ],
)
def test_broken_characters_are_found_with_their_lines(kind: str, bad: bytes, good: bytes, tmp_path: Path) -> None:
    lines = [b"good %d" % i for i in range(30)]
    for i in (3, 8, 11, 12, 20, 25, 29):
        lines[i] = bad + b" %d" % i if kind != "long" else bad
    (report,) = examine(tmp_path, b"\n".join(lines)).files
    finding = found(report.findings, kind)
    assert (finding.count, finding.lines) == (7, (4, 9, 12, 13, 21))
    assert str(finding).endswith(": lines 4, 9, 12, 13, 21, …")
    assert report.n_examples == 30
    (report,) = examine(tmp_path, b"\n".join([b"one", good, b"two"])).files
    assert kind not in kinds(report)


def test_nul_bytes_are_found_with_their_lines(tmp_path: Path) -> None:
    (report,) = examine(tmp_path, (b"fine " * 100 + b"\n") * 400 + b"b\0d\nfine\n").files
    assert found(report.findings, "nul").lines == (401,)
    assert "reading stopped" in found(report.findings, "format").message
    assert report.n_lines == 402


def test_blank_lines_count_where_they_mean_nothing(tmp_path: Path) -> None:
    (report,) = examine(tmp_path, GOOD + "\n \n").files
    assert found(report.findings, "blank").lines == (5, 6)
    (report,) = examine(tmp_path, "a O\n\nb B-X\n\n").files
    assert report.format == "columns"
    assert "blank" not in kinds(report)


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
        found(report.findings, "alike").message == "the labels 'often' and 'Often' differ only in case or punctuation"
    )
    (report,) = examine(tmp_path, "\n".join([*lines[:10], "b\tother text"])).files
    assert "imbalance" not in kinds(report)
    (report,) = examine(tmp_path, "\n".join(lines[:10])).files
    assert found(report.findings, "one-label").message == "every text has the same label, 'often'"


def test_labels_without_text_and_sources_without_target(tmp_path: Path) -> None:
    (report,) = examine(tmp_path, GOOD + "pos\t\nneg\t \n").files
    assert found(report.findings, "no-text").lines == (5, 6)
    (report,) = examine(tmp_path, "Haus\thouse\nHand\t\nFuß\tfoot\n").files
    assert report.format == "parallel"
    assert found(report.findings, "no-target").lines == (2,)


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
    assert kinds(report) == {"iob1"}
    assert "the tags in column 2 are IOB1: I- begins 2 chunks" in found(report.findings, "iob1").message


def test_bioes_violations_have_their_lines(tmp_path: Path) -> None:
    tags = "B-X\nI-X\nE-X\nS-Y\nO\n\nB-X\nO\n\nE-X\n\nB-X\nE-Y\n\nO\nB-X\n"
    (report,) = examine(tmp_path, column_file(tags)).files
    finding = found(report.findings, "bio")
    assert finding.lines == (8, 10, 13, 16)
    assert "violate BIOES" in finding.message


def test_columns_without_span_tags_are_not_checked(tmp_path: Path) -> None:
    (report,) = examine(tmp_path, "a DT O\nb NN I-X\n\nc I-Z O\n").files
    assert {f.message.split(" break")[0] for f in report.findings if f.kind in ("bio", "iob1")} == {
        "the tags in column 3 are IOB1: I- begins 1 chunk"
    }


# --- files that cannot be examined ----------------------------------------------------------------------------------


def test_missing_or_binary_files_become_findings(tmp_path: Path) -> None:
    (tmp_path / "picture").write_bytes(b"\x89PNG\r\n\x1a\n\0\0")
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "cut.gz").write_bytes(b"\x1f\x8b\x08\x00")
    names = ["gone", "picture", "empty", "cut.gz", ""]
    report = inspect([tmp_path / name for name in names])
    messages = [[(f.kind, f.message) for f in file.findings] for file in report.files]
    assert all(len(found) == 1 for found in messages), messages
    assert "File not found" in messages[0][0][1]
    assert "is a PNG picture" in messages[1][0][1]
    assert "is empty" in messages[2][0][1]
    assert "is truncated" in messages[3][0][1]
    assert "is a folder" in messages[4][0][1]
    assert {file.format for file in report.files} == {"unknown"}
    assert json.loads(json.dumps(report.to_dict())) == report.to_dict()
    assert report.lines()


def test_invalid_line_stops_reading_and_is_a_finding(tmp_path: Path) -> None:
    good = "".join(f"{'a' * 300}{i} b{i} O\n\n" for i in range(500))
    (report,) = examine(tmp_path, good + "ragged O\n").files
    finding = found(report.findings, "format")
    assert finding.level == "error"
    assert "train:1001 must have 3 blank-separated fields" in finding.message
    assert report.n_examples == 500


def test_table_without_labels_is_inspected(tmp_path: Path) -> None:
    (report,) = examine(tmp_path, "id,text\n1,hello there\n2,and you\n").files
    assert (report.format, report.n_examples, kinds(report)) == ("csv", 2, {"unlabeled"})


def test_unprintable_labels_are_handled(tmp_path: Path) -> None:
    lines = [json.dumps({"text": f"text {i}", "label": "a\nb\x1b[31m"}) for i in range(3)]
    report = examine(tmp_path, "\n".join(lines))
    assert report.files[0].labels == {"a\nb\x1b[31m": 3}
    assert all(line.isprintable() for line in report.lines())


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
    assert (report.label_kind, report.labels, report.words["max"]) == ("root labels", {"3": 1, "1": 1}, 2)
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
