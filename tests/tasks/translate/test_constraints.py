"""Files of constraints on translations."""

from __future__ import annotations

from pathlib import Path

import pytest

from catena.errors import DataError
from catena.search.text_constraints import TextConstraints
from catena.tasks.translate.constraints import parse_constraints, read_constraints


def test_constraint_line_has_phrases_separated_by_tabs() -> None:
    wanted = TextConstraints(("Haus", "-x"), ("der Hund",), prefix="Das")
    assert parse_constraints("Haus\t-der Hund\t^Das \t+-x\t") == wanted
    assert not parse_constraints("  \t ")


def test_invalid_constraint_file_raises(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("")
    with pytest.raises(DataError, match=r"is empty. Write one line for each text"):
        read_constraints(tmp_path / "empty")
    for wrong in ("a big cat\t-big", "-big cat\t^a big  cat"):
        (tmp_path / "both").write_text(f"dog\t-do\n{wrong}\n")
        with pytest.raises(DataError, match=r"both:2: .* got 'big.*' and 'a big  ?cat'. Remove one"):
            read_constraints(tmp_path / "both")
