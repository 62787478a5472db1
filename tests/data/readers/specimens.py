"""A small valid file of every text format, and what must come of it. Imports nothing of the readers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Specimen:
    """``text`` holds ``count`` examples. ``café`` is in each, so that its encoding matters."""

    format: str
    text: str
    count: int
    task: str
    id: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "id", self.id or self.format)


SPECIMENS = [
    Specimen("text", "the café is open\nit rains\ngood night\n", 3, "lm"),
    Specimen("tsv", "place\tthe café is open\nweather\tit rains\nweather\tsnow falls\n", 3, "classify", "labels"),
    Specimen("first-word", "0 the café is open\n1 it rains\n0 snow falls\n", 3, "classify"),
    Specimen("fasttext", "__label__a __label__b the café is open\n__label__a it rains\n", 2, "classify"),
    Specimen("csv", 'text,label\n"the café, it is open",place\nit rains,weather\n', 2, "classify"),
    Specimen("tsv", "label\tid\tsentence\nplace\t1\tthe café is open\nweather\t2\tit rains\n", 2, "classify", "tsv"),
    Specimen("jsonl", '{"text": "the café", "label": "a"}\n{"label": 3, "text": "it rains"}\n', 2, "classify"),
    Specimen("json", '[\n {"text": "the café", "label": "a"},\n {"label": 3, "text": "it rains"}\n]\n', 2, "classify"),
    Specimen("tsv", "the café is open\tdas Café ist offen\nit rains here\tes regnet hier\n", 2, "translate", "pairs"),
    Specimen("dictionary", ";;; words\ncafé  K AH0 F EY1\ncafé(2)  K AE1 F EY0\nrain  R EY1 N # so\n", 3, "transduce"),
    Specimen("dialogue", "Ann: the café is open\nBob: yes\nAnn: no\n\nBob: well\nAnn: why\n", 2, "converse"),
    Specimen("columns", "-DOCSTART- -X- O\n\nthe DT O\ncafé NN B-LOC\n\nit PRP O\nrains VBZ O\n", 2, "tag"),
    Specimen(
        "conllu",
        "# sent_id = 1\n"
        "1\tcafé\tcafé\tNOUN\tNN\t_\t2\tnsubj\t2:nsubj\t_\n"
        "2\topens\topen\tVERB\tVBZ\t_\t0\troot\t0:root\t_\n\n"
        "1\tRain\train\tNOUN\tNN\t_\t0\troot\t0:root\t_\n\n",
        2,
        "parse",
    ),
    Specimen("brackets", "( (S (NP (NN café)) (VP (VBZ opens))))\n(S\n  (VP (VB rain)))\n", 2, "parse"),
]
BY_NAME = {specimen.id: specimen for specimen in SPECIMENS}
