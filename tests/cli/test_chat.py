"""``catena chat`` with piped lines, a file or a run, and its errors."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Catena


def test_piped_lines_are_answered(catena: Catena, tmp_path: Path) -> None:
    path = tmp_path / "faq.tsv"
    path.write_text("when do you open\tat nine\nwhere are you\tin the city\n", encoding="utf-8")
    said = catena("chat", path, stdin=b"when open\n\nqwerty\n/undo\n/quit\nwhere\n")
    assert said.code == 0, said.err
    assert said.out == "at nine\n(no response)\n(removed: qwerty)\n"
    said = catena("chat", path, "--search", "beam", stdin=b"when\n")
    assert said.code == 2
    assert (
        said.sentence
        == f"--search works only with generative models, and {path} retrieves its responses. Remove the option."
    )
    said = catena("chat", tmp_path / "fqa.tsv")
    assert said.code == 2
    assert said.sentence == (
        f"Run or file not found: {tmp_path / 'fqa.tsv'}. Did you mean {path}? Otherwise: Pass the folder that "
        f"'catena train converse' wrote, or a file with lines of context<TAB>response."
    )
    said = catena("chat", path, stdin="grü\n".encode("latin-1"))
    assert "standard input:1 must be encoded in utf-8" in said.sentence


def test_column_options_select_columns_of_a_file(catena: Catena, tmp_path: Path) -> None:
    path = tmp_path / "faq.csv"
    path.write_text("n,frage,antwort\n1,wann ist offen,um neun\n2,wo seid ihr,hier\n", encoding="utf-8")
    said = catena("chat", path, stdin=b"wo\n")
    assert "--context-column 1 --response-column 2" in said.sentence
    named = "--context-column", "frage", "--response-column", "antwort"
    assert catena("chat", path, *named, stdin=b"wo\n").out == "hier\n"
    assert catena("train", path, *named, "--dev", path, "--against", "both", "-o", tmp_path / "run").code == 0
    assert catena("predict", tmp_path / "run", path, "--format", "text").out == "um neun\nhier\n"
    assert catena("predict", tmp_path / "run", "--format", "text", stdin=b"wo, sag\n").out == "hier\n"
    assert catena("evaluate", tmp_path / "run", path).out.splitlines()[1] == "2 contexts, 2 examples"
    said = catena("chat", path, *named[:2])
    assert said.sentence == "--context-column and --response-column must be set together, got one. Set both or neither."
    said = catena("chat", tmp_path / "run", *named)
    assert said.sentence.startswith("--context-column and --response-column work only with files")


def test_chat_with_run_responds_and_other_tasks_print_error(
    catena: Catena, tmp_path: Path, language_model: Path
) -> None:
    path = tmp_path / "faq.tsv"
    path.write_text("when do you open\tat nine\nwhere are you\tin the city\nwho\tme\n", encoding="utf-8")
    assert catena("train", "converse", path, "--dev", path, "--against", "both", "-o", tmp_path / "run").code == 0
    assert catena("chat", tmp_path / "run", stdin=b"where is it\n").out == "in the city\n"
    said = catena("predict", tmp_path / "run", "--n-best", "2", "--scores", stdin=b"where\n")
    assert [line.split("\t")[1] for line in said.out.splitlines()] == ["in the city", "at nine"]
    said = catena("chat", language_model, stdin=b"hello\n")
    assert said.sentence.endswith("got a model of lm. Train one with 'catena train converse'.")
