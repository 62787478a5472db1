"""Inspect data files: their formats, and their problems line by line."""

from __future__ import annotations

import tempfile
from pathlib import Path

from catena.data import inspect

TRAIN = """\
weather\twill it rain today
music\tplay some jazz
weather\tis it cold outside
Weather\twill it snow
music\tplay some jazz
weather\t
music\tturn it up
"""
TEST = "weather\tis it cold outside\nnews\twhat happened today\nmusic\tstop\n"

with tempfile.TemporaryDirectory() as folder:
    train, test = Path(folder) / "train.tsv", Path(folder) / "test.tsv"
    train.write_text(TRAIN, encoding="utf-8")
    test.write_text(TEST, encoding="utf-8")
    for line in inspect([train, test]).lines():
        print(line.replace(f"{folder}/", ""))
