"""145 files as common tools write them: every file gives the counts of ``expected.tsv``, or one sentence with a cure.

The files and the counts were made independently of the readers. A refusal counts only where the expected count is 0 or
the last column of the table allows it.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any

import pytest

from catena.data.conversations import read_exchanges
from catena.data.inspection import FileReport, inspect
from catena.data.schemes import split_tag

OPTIONS: dict[str, dict[str, Any]] = {
    "xl2.csv": {"encoding": "cp1252", "columns": {"label": "Klasse"}},
    "cp1.csv": {"encoding": "cp1252"},
    "c_kaggle.csv": {"encoding": "cp1252"},
    "oh2.csv": {"multilabel": True},
    "ml1.csv": {"label_separator": ";"},
    "ml2.csv": {"multilabel": True},
    "ml3.txt": {"multilabel": True},
    "l_wrap.txt": {"paragraphs": True},
    "p_short.en": {"target": "p_short.fr"},
    "p_short.fr": {"target": "p_short.en"},
    "p_moses.en": {"target": "p_moses.fr"},
    "p_moses.fr": {"target": "p_moses.en"},
}
"""The options that the last column of the table names."""
OTHER_COUNTS = {"u_heads.conllu": (25, 26), "x_rec.jsonl": (37, 38, 39), "d_whatsapp.txt": (1,)}
"""Files for which the last column allows other counts. The chat of WhatsApp is one dialogue of 60 turns."""
OTHER_TASKS = {
    "num3.csv": "regress",
    "b_raw.mrg": "parse",
    "d_squad.json": "read",
    "v_glove.txt": None,
    "v_head.vec": None,
    "v_space.txt": None,
}
FINDINGS = {
    "moji1.csv": "mojibake", "ml1.csv": "joined-labels", "num3.csv": "quantity", "sp1.tsv": "similar-labels",
    "sp3.tsv": "invisible-labels", "cls1000.tsv": "rare-labels", "imb1.csv": "dev-one-label", "html1.csv": "html",
    "dup1.csv": "near-duplicate", "leak1.csv": "leak", "emo1.tsv": "bidi", "ctl1.tsv": "control", "c_io.conll": "io",
    "c_iob1.conll": "iob1", "c_bioes.conll": "scheme", "c_bilou.conll": "scheme", "c_nobl.conll": "one-sentence",
    "c_inv.conll": "bio", "w_wikt.tsv": "joined-targets", "l_unk.txt": "special-token", "l_wrap.txt": "wrapped",
    "v_glove.txt": "duplicate", "c_mwe.conll": "spaced", "q5.csv": "unusual", "u_sp.conllu": "unusual",
    "ml2.csv": "lists-in-cells", "hd2.csv": "dropped", "u_heads.conllu": "heads",
}  # fmt: skip
NAMED_LINES = {
    "rag1.csv": 37, "rag2.csv": 22, "e1.tsv": 12, "q5.csv": 14, "mix1.csv": 5, "sql2.txt": 62, "hd2.csv": 32,
    "ft1.txt": 26, "nul1.tsv": 23, "nul2.tsv": 61, "c_bad.conll": 20, "b_unbal.mrg": 11, "b_raw.mrg": 1,
    "p_one.tsv": 21,
}  # fmt: skip
"""The line that a finding about the file must name."""


@pytest.fixture(scope="module")
def folder(real_data: Path) -> Path:
    if not (real_data / "messy_files" / "expected.tsv").exists():
        pytest.skip("CATENA_DATA has no folder messy_files")
    return real_data / "messy_files"


@pytest.fixture(scope="module")
def rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "expected.tsv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


@pytest.fixture(scope="module")
def reports(folder: Path, rows: list[dict[str, str]]) -> dict[str, FileReport]:
    found = {}
    for row in rows:
        options = dict(OPTIONS.get(row["file"], {}))
        if "target" in options:
            options["target"] = folder / options["target"]
        found[row["file"]] = inspect([folder / row["file"]], **options).files[0]
    return found


def may_refuse(row: dict[str, str]) -> bool:
    return row["examples"] == "0" or re.search(r"refuse|sentence", row["what_a_careful_reader_does"]) is not None


def differs(row: dict[str, str], report: FileReport) -> str | None:
    """What is wrong with a report, or None."""
    expected = int(row["examples"])
    if (report.n_examples or 0) in OTHER_COUNTS.get(row["file"], (expected,)):
        return None
    errors = [finding.message for finding in report.findings if finding.level == "error"]
    if errors and may_refuse(row):
        return None if all(re.search(r"[A-Z][^.]*\.$|; ", error) for error in errors) else f"no cure: {errors}"
    return f"{report.n_examples} instead of {expected}; errors: {errors}"


def test_every_file_gives_its_count_or_a_sentence(rows: list[dict[str, str]], reports: dict[str, FileReport]) -> None:
    assert len(rows) == 145
    wrong = {row["file"]: problem for row in rows if (problem := differs(row, reports[row["file"]])) is not None}
    assert not wrong


def test_every_file_has_its_task(rows: list[dict[str, str]], reports: dict[str, FileReport]) -> None:
    wrong = {}
    for row in rows:
        report = reports[row["file"]]
        expected = OTHER_TASKS.get(row["file"], None if row["task"] == "none" else row["task"])
        if report.task != expected and not (may_refuse(row) and not report.is_usable):
            wrong[row["file"]] = (report.task, expected)
    assert not wrong


def test_counts_reconcile(reports: dict[str, FileReport]) -> None:
    read = {name: report for name, report in reports.items() if report.n_read is not None and report.is_usable}
    assert len(read) > 110
    for name, report in read.items():
        assert report.n_read == (report.n_examples or 0) + sum(report.dropped.values()), name


def test_every_dropped_line_is_listed(reports: dict[str, FileReport]) -> None:
    assert len(reports) > 0
    for name, report in reports.items():
        for reason, n in report.dropped.items():
            (finding,) = [f for f in report.findings if f.message == f"{n:,} dropped, {reason}"]
            assert finding.count == n
            assert len(finding.lines) == min(n, 20), name


def test_classes_equal_the_table(rows: list[dict[str, str]], reports: dict[str, FileReport]) -> None:
    wrong = {}
    for row in rows:
        report = reports[row["file"]]
        labels = set(report.labels)
        if row["task"] == "tag" and row["file"] not in ("c_slash.txt", "u_nohead.conllu"):
            labels = {split_tag(tag)[1].upper() for tag in report.labels} - {""}
        if row["file"] == "sp1.tsv":  # case is reported, not changed
            labels = {label.casefold() for label in labels}
        known = row["task"] in ("classify", "tag") and row["file"] not in ("u_nohead.conllu", "c_kaggle.csv")
        if known and report.n_examples and str(len(labels)) != row["classes"]:
            wrong[row["file"]] = (sorted(labels), row["classes"])
    assert not wrong


def test_words_equal_the_table(rows: list[dict[str, str]], reports: dict[str, FileReport]) -> None:
    expected = {
        row["file"]: int(match[1])
        for row in rows
        if (match := re.search(r"\b(\d+) words(?! of)", row["what_a_careful_reader_does"]))
        and row["task"] in ("tag", "parse")
    }
    assert len(expected) >= 12
    assert {name: reports[name].n_words for name in expected} == expected


@pytest.mark.parametrize("name", FINDINGS)
def test_finding_of_the_table_is_made(name: str, folder: Path, reports: dict[str, FileReport]) -> None:
    report = inspect([folder / name]).files[0] if name in ("ml1.csv", "l_wrap.txt") else reports[name]
    assert FINDINGS[name] in {finding.kind for finding in report.findings}


@pytest.mark.parametrize("name", NAMED_LINES)
def test_line_of_the_table_is_named(name: str, reports: dict[str, FileReport]) -> None:
    line = NAMED_LINES[name]
    assert any(line in finding.lines or f":{line}" in finding.message for finding in reports[name].findings)


@pytest.mark.parametrize(
    ("name", "words"), [("xl2.csv", "cp1252"), ("cp1.csv", "cp1252"), ("mix1.csv", "correct this line")]
)
def test_encoding_is_named_by_the_bytes(name: str, words: str, folder: Path) -> None:
    messages = [finding.message for finding in inspect([folder / name]).files[0].findings if finding.level == "error"]
    assert any(words in message for message in messages)
    assert not any("latin-1" in message for message in messages)


def test_files_against_each_other(folder: Path) -> None:
    report = inspect([folder / "split_train.csv", folder / "split_test.csv"])
    by_kind = {finding.kind: finding for finding in report.findings}
    assert by_kind["overlap"].count == 15
    assert "'greeting'" in by_kind["unseen-label"].message
    assert report.is_usable


def test_exported_chat_has_sixty_turns(folder: Path) -> None:
    exchanges = list(read_exchanges(folder / "d_whatsapp.txt"))
    assert len(exchanges) == 59
    assert not any(re.search(r"\d\d/\d\d", turn) for turn in exchanges[-1].context)


def test_nothing_printed_can_act_on_a_terminal(reports: dict[str, FileReport]) -> None:
    assert len(reports) > 0
    for name, report in reports.items():
        assert all(line.isprintable() for line in report.lines()), name
