"""All formats by name."""

from __future__ import annotations

from catena.data.readers import (
    brackets,
    columns,
    conllu,
    datasets,
    delimited,
    dictionary,
    fasttext,
    jsonl,
    kim,
    parallel,
    parquet,
    text,
    tsv_label,
)
from catena.data.readers.format import Format
from catena.registry import Registry

FORMATS: Registry[Format] = Registry("format")
for _format in (
    text.FORMAT,
    tsv_label.FORMAT,
    kim.FORMAT,
    fasttext.FORMAT,
    delimited.CSV,
    delimited.TSV,
    jsonl.FORMAT,
    parallel.FORMAT,
    dictionary.FORMAT,
    columns.FORMAT,
    conllu.FORMAT,
    brackets.FORMAT,
    parquet.FORMAT,
    datasets.FORMAT,
):
    FORMATS.register(_format.name)(_format)
