"""A small valid file of every text format, and what must come of it. Imports nothing of the readers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Specimen:
    """``text`` holds ``count`` examples. ``café`` is in each, so that its encoding matters."""

    format: str
    text: str
    count: int


SPECIMENS = [
    Specimen("text", "the café is open\nit rains\ngood night\n", 3),
    Specimen("tsv-label", "place\tthe café is open\nweather\tit rains\nweather\tsnow\n", 3),
    Specimen("kim", "0 the café is open\n1 it rains\n0 snow\n", 3),
    Specimen("fasttext", "__label__a __label__b the café is open\n__label__a it rains\n", 2),
    Specimen("csv", 'text,label\n"the café, it is open",place\nit rains,weather\n', 2),
    Specimen("tsv", "label\tid\tsentence\nplace\t1\tthe café is open\nweather\t2\tit rains\n", 2),
    Specimen("jsonl", '{"text": "the café", "label": "a"}\n{"label": 3, "text": "it rains"}\n', 2),
    Specimen("parallel", "the café is open\tdas Café ist offen\nit rains\tes regnet\n", 2),
    Specimen("dictionary", ";;; words\ncafé  K AH0 F EY1\ncafé(2)  K AE1 F EY0\nrain  R EY1 N # weather\n", 3),
    Specimen("columns", "-DOCSTART- -X- O\n\nthe DT O\ncafé NN B-LOC\n\nit PRP O\nrains VBZ O\n", 2),
    Specimen(
        "conllu",
        "# sent_id = 1\n"
        "1\tcafé\tcafé\tNOUN\tNN\t_\t2\tnsubj\t2:nsubj\t_\n"
        "2\topens\topen\tVERB\tVBZ\t_\t0\troot\t0:root\t_\n\n"
        "1\tRain\train\tNOUN\tNN\t_\t0\troot\t0:root\t_\n\n",
        2,
    ),
    Specimen("brackets", "( (S (NP (NN café)) (VP (VBZ opens))))\n(S\n  (VP (VB rain)))\n", 2),
]
BY_NAME = {specimen.format: specimen for specimen in SPECIMENS}
