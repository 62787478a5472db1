"""Answer English questions from a table: a grammar gives each question a logical form, which is then evaluated.

The grammar is a file of rules with meanings. Parsing a question and combining the meanings gives a term such as
count(with(region,north,islands)); a dozen lines of Python evaluate it on a CSV table.
"""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

from catena import load
from catena.cli.main import main
from catena.grammar import parse_term
from catena.grammar.terms import Application, Constant, Term

TABLE = """\
name,region,capital,area,people
Arvo,north,Lunde,120,4100
Brenn,north,Ost,310,2600
Calm,south,Marin,95,8800
Dove,south,Pell,410,5200
Ember,west,Tarn,230,700
"""

RULES = r"""
Q      -> 'how' 'many' Set 'are' 'there'         {sem: count(Set.sem)}
Q      -> 'how' 'many' Noun 'are' Where          {sem: count(Where.sem(Noun.sem))}
Q      -> 'which' Noun 'are' Where               {sem: look(name, Where.sem(Noun.sem))}
Q      -> 'which' Noun 'has' 'the' Degree Column {sem: look(name, Degree.sem(Column.sem, Noun.sem))}
Q      -> 'what' 'is' 'the' Column 'of' Thing    {sem: look(Column.sem, Thing.sem)}
Thing  -> Name                                   {sem: with(name, Name.sem, islands)}
Thing  -> 'the' Size Set                         {sem: Size.sem(Set.sem)}
Set    -> Noun
Set    -> Noun Where                             {sem: Where.sem(Noun.sem)}
Where  -> 'in' 'the' Region                      {sem: \s.with(region, Region.sem, s)}
Where  -> 'larger' 'than' Name                   {sem: \s.above(area, look(area, with(name, Name.sem, islands)), s)}
Size   -> 'largest'                              {sem: \s.most(area, s)}
Size   -> 'smallest'                             {sem: \s.least(area, s)}
Degree -> 'most'                                 {sem: most}
Degree -> 'least'                                {sem: least}
Noun   -> 'islands' {sem: islands} | 'island' {sem: islands}
Column -> 'capital' {sem: capital} | 'area' {sem: area} | 'people' {sem: people}
Region -> 'north' {sem: north} | 'south' {sem: south} | 'west' {sem: west}
"""

QUESTIONS = [
    "how many islands are there",
    "how many islands are in the north",
    "which islands are larger than Arvo",
    "which island has the most people",
    "what is the capital of the largest island in the south",
    "what is the color of Arvo",
]

Rows = list[dict[str, str]]


def grammar_for(rows: Rows) -> str:
    """Return the rules, and a rule for each name in the table."""
    names = [f"""Name -> '{row["name"]}' {{sem: "{row["name"]}"}}""" for row in rows]
    return RULES + "\n".join(names) + "\n"


def value(term: Term, rows: Rows) -> Any:
    """Return the value of a logical form: a number, words, or some rows of the table."""
    parts: list[Term] = []
    while isinstance(term, Application):
        parts.insert(0, term.argument)
        term = term.function
    assert isinstance(term, Constant)
    if not parts:
        return rows if term.name == "islands" else term.name
    given = [value(part, rows) for part in parts]
    match term.name:
        case "count":
            return len(given[0])
        case "look":
            return ", ".join(row[given[0]] for row in given[1])
        case "with":
            return [row for row in given[2] if row[given[0]] == given[1]]
        case "above":
            return [row for row in given[2] if float(row[given[0]]) > float(given[1])]
        case "most":
            return [max(given[1], key=lambda row: float(row[given[0]]))]
        case "least":
            return [min(given[1], key=lambda row: float(row[given[0]]))]
    raise ValueError(f"Unknown name {term.name!r} in a logical form. Add it to value().")


def run() -> None:
    rows = list(csv.DictReader(io.StringIO(TABLE)))
    Path("questions.cfg").write_text(grammar_for(rows), encoding="utf-8")
    main(["train", "parse", "questions.cfg", "--model", "grammar", "-o", "runs/questions", "--overwrite", "-q"])
    for question, parsed in zip(QUESTIONS, load("runs/questions").predict(QUESTIONS), strict=True):
        meaning = parsed.meaning
        if meaning is None:
            print(f"{question}?\n    {parsed.note}")
        else:
            print(f"{question}?\n    {meaning}\n    {value(parse_term(meaning), rows)}")


if __name__ == "__main__":
    run()
