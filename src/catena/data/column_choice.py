"""Which column of a table has which role: set by the user, or found by its name or its values.

Tested in tests/data/test_roles.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from catena.data.roles import (
    ID_NAME,
    ITEMS,
    LABEL,
    MISSING,
    SOURCE,
    SPLIT_COLUMNS,
    SPLITS,
    TARGET,
    TEXT,
    TEXT_COLUMNS,
    ColumnChoice,
    NoColumnError,
    Role,
    find_column,
    find_pair,
)
from catena.data.values import (
    SENTENCE,
    are_written_integers,
    flat_strings,
    is_date,
    is_id,
    is_label_column,
    is_number,
    lookup,
    mean_words,
    one_hot_columns,
    pair_by_values,
    repeats,
    strings,
    text_and_label,
)
from catena.errors import FormatError
from catena.registry import did_you_mean

_Rows = Sequence[Mapping[str, Any]]


def choose_columns(
    roles: Sequence[Role],
    names: Sequence[str],
    rows: _Rows,
    given: Mapping[str, str],
    where: str,
    has_header: bool,
    ordered: bool = True,
) -> dict[str, ColumnChoice]:
    """The column of each role.

    Args:
        roles: the roles that are read.
        names: all columns, in order; numbers if there is no header.
        rows: a sample of the records.
        given: the column that the user sets for a role, by name, by number from 1, or as a dotted path.
        where: the file, for errors.
        has_header: whether the columns have names.
        ordered: whether the columns have an order, unlike the keys of JSON, so that the only two can be a pair.

    Raises:
        NoColumnError: if a required role has no column.
    """
    chosen = {role.name: _given(role, given[role.name], names, rows, where) for role in roles if role.name in given}
    free = [name for name in names if all(name not in choice.columns for choice in chosen.values())]
    wanted = {role.name: role for role in roles if role.name not in chosen}
    if "source" in wanted:
        chosen |= _choose_pair(wanted, free, rows, has_header, ordered)
    elif "target" in wanted and len(free) == 1:
        chosen["target"] = ColumnChoice((free[0],), "values")
    for name, role in wanted.items():
        if name not in ("source", "target", *chosen):
            taken = {column for choice in chosen.values() for column in choice.columns}
            if (column := _by_name(role, [one for one in free if one not in taken], rows)) is not None:
                chosen[name] = ColumnChoice(_alternatives(column, role, free, rows, taken))
    if wanted.keys() & {"text", "label"}:
        chosen = _by_values(chosen, wanted, free, rows, has_header)
    if "label" in chosen and not chosen["label"].one_hot:
        chosen["label"] = _with_integers(chosen["label"], rows)
    for name, role in wanted.items():
        if role.required and name not in chosen:
            raise _missing(role, roles, names, rows, where, chosen, has_header)
    return {name: _with_lists(choice, name, rows) for name, choice in chosen.items()}


def _by_name(role: Role, free: Sequence[str], rows: _Rows) -> str | None:
    """The column with a common name of the role, or a common path into nested lists."""
    if (column := find_column(free, role.columns)) is not None:
        return column
    paths = [path for path in role.columns if "." in path]
    return next((path for path in paths if any(lookup(row, path) is not None for row in rows)), None)


def _given(role: Role, column: str, names: Sequence[str], rows: _Rows, where: str) -> ColumnChoice:
    if column in names:
        return ColumnChoice((column,), "set")
    folded = [name for name in names if name.casefold() == column.casefold()]
    if len(folded) == 1:
        return ColumnChoice((folded[0],), "set")
    if column.isdecimal() and 1 <= int(column) <= len(names):
        return ColumnChoice((names[int(column) - 1],), "set")
    parts = tuple(part.strip() for part in column.split(","))
    if role.is_list and len(parts) > 1 and all(part in names for part in parts):
        return ColumnChoice(parts, "set", one_hot=True)
    if "." in column and any(lookup(row, column) is not None for row in rows):
        return ColumnChoice((column,), "set")
    numbers = "" if names and names[0] == "1" else f", or pass a number from 1 to {len(names)}"
    raise FormatError(f"{where} has no column {column!r}: {did_you_mean(column, names)}{numbers}.")


def _choose_pair(
    wanted: Mapping[str, Role], free: Sequence[str], rows: _Rows, has_header: bool, ordered: bool
) -> dict[str, ColumnChoice]:
    """The columns of source and target, or only of the source if targets are optional."""
    if "target" not in wanted:
        column = find_column(free, (*SOURCE.columns, *TEXT.columns)) or (free[0] if len(free) == 1 else None)
        return {} if column is None else {"source": ColumnChoice((column,))}
    if has_header and (sides := find_pair(free)) is not None:
        return {"source": ColumnChoice((free[sides[0]],)), "target": ColumnChoice((free[sides[1]],))}
    if (pair := pair_by_values(free, rows) if ordered else None) is not None:
        return {"source": ColumnChoice((pair[0],), "values"), "target": ColumnChoice((pair[1],), "values")}
    if not wanted["target"].required:
        return _choose_pair({"source": SOURCE}, free, rows, has_header, ordered)
    return {}


def _alternatives(column: str, role: Role, free: Sequence[str], rows: _Rows, taken: set[str]) -> tuple[str, ...]:
    """The column, and other columns of common names in records that lack it, as in JSON with changing keys."""
    if all(lookup(row, column) is not None for row in rows):
        return (column,)
    found = [column]
    for other in free:
        is_common = other not in (*taken, column) and find_column([other], role.columns) is not None
        if is_common and not any(lookup(row, other) is not None and _has_any(row, found) for row in rows):
            found.append(other)
    return tuple(found)


def _has_any(row: Mapping[str, Any], columns: Sequence[str]) -> bool:
    return any(lookup(row, column) is not None for column in columns)


def _by_values(
    chosen: dict[str, ColumnChoice], wanted: Mapping[str, Role], free: Sequence[str], rows: _Rows, has_header: bool
) -> dict[str, ColumnChoice]:
    """The choices with text and label found by the values, where one possibility is left."""
    taken = {column for choice in chosen.values() for column in choice.columns}
    rest = [name for name in free if name not in taken and _may_have_role(name, rows)]
    if "text" in wanted and "text" not in chosen:
        if "label" in wanted and "label" not in chosen:
            free = (
                [name for name in rest if _may_be_text_or_label(name, rows)] if len(rest) > 2 and has_header else rest
            )
            both = text_and_label(free, rows) if free and (len(free) == 2 or not has_header) else None
            if both is not None and (not has_header or _repeats(both[1], rows)):
                text, label = (ColumnChoice((name,), "values") for name in both)
                return {**chosen, "text": text, "label": label}
        others = [name for name in rest if not is_id([lookup(row, name) for row in rows])]
        if has_header and len(texts := [name for name in others if _is_text(name, rows)]) == 1:
            others = texts
        if len(others) == 1 and not is_number([lookup(row, others[0]) for row in rows]):
            return {**chosen, "text": ColumnChoice((others[0],), "values")}
    if "label" in wanted and "label" not in chosen and "text" in chosen:
        if hot := one_hot_columns(rest, rows):
            return {**chosen, "label": ColumnChoice(hot, "values", one_hot=True)}
        texts = [lookup(row, chosen["text"].columns[0]) for row in rows]
        rest = [name for name in rest if not _is_row_number(name, rows)]
        is_label = len(rest) == 1 and is_label_column(flat_strings(lookup(row, rest[0]) for row in rows), texts)
        if is_label and (not has_header or _repeats(rest[0], rows)):
            return {**chosen, "label": ColumnChoice((rest[0],), "values")}
    return chosen


def _may_have_role(name: str, rows: _Rows) -> bool:
    """Whether a column has values, other than the names of splits."""
    values = {value.casefold() for value in flat_strings(lookup(row, name) for row in rows)}
    return bool(values) and not (values <= SPLITS.keys() and find_column([name], SPLIT_COLUMNS) is not None)


def _may_be_text_or_label(name: str, rows: _Rows) -> bool:
    """Whether the values are not ids, dates or one constant."""
    values = strings((lookup(row, name) for row in rows), MISSING)
    return len(set(values)) > 1 and not is_id(values) and not is_date(values)


def _is_text(name: str, rows: _Rows) -> bool:
    """Whether the values are texts that differ."""
    values = strings((lookup(row, name) for row in rows), MISSING)
    return len(values) > 2 and mean_words(values) >= SENTENCE and not repeats(values) and not is_date(values)


def _repeats(name: str, rows: _Rows) -> bool:
    return repeats(flat_strings((lookup(row, name) for row in rows), MISSING))


def _is_row_number(name: str, rows: _Rows) -> bool:
    """Whether a column without a name, or named as an id has the numbers of rows, as R and pandas write."""
    is_unnamed = name.isdecimal() or name.startswith("Unnamed:") or ID_NAME.fullmatch(name.strip()) is not None
    return is_unnamed and is_id([lookup(row, name) for row in rows])


def _with_integers(choice: ColumnChoice, rows: _Rows) -> ColumnChoice:
    values = [lookup(row, column) for row in rows for column in choice.columns]
    written = [value for value in values if isinstance(value, str)]
    if not written or not are_written_integers(written):
        return choice
    return ColumnChoice(choice.columns, choice.why, integers=True)


def _with_lists(choice: ColumnChoice, role: str, rows: _Rows) -> ColumnChoice:
    values = [value for row in rows if (value := lookup(row, choice.columns[0])) is not None]
    lists = sum(isinstance(value, list) for value in values)
    return replace(choice, lists=True) if role == ITEMS.name and lists > 0.5 * len(values) else choice


def _missing(
    role: Role,
    roles: Sequence[Role],
    names: Sequence[str],
    rows: _Rows,
    where: str,
    chosen: Mapping[str, ColumnChoice],
    has_header: bool,
) -> NoColumnError:
    """The error for a role without a column, with the likely one."""
    shown = ", ".join(repr(name) for name in names[:20] if name.strip()) + (", …" if len(names) > 20 else "")
    option = f"--{role.name}-column"
    if not has_header:
        problem = f"{where} has {len(names)} columns without names, and the values do not show which is the {role.name}"
        return NoColumnError(f"{problem}. Pass its number, as in {option} 1.", role.name)
    problem = f"{where} has no {role.name} column with a common name, only {shown}."
    if role.name in (SOURCE.name, TARGET.name):
        cure = "Pass --source-column and --target-column by name or number, as in --source-column 1 --target-column 2."
    elif role.name in (TEXT.name, LABEL.name):
        taken = {column for choice in chosen.values() for column in choice.columns}
        values = {name: strings((lookup(row, name) for row in rows), MISSING) for name in names if name.strip()}
        free = {name: own for name, own in values.items() if name not in taken and not is_id(own) and not is_date(own)}
        text = chosen[TEXT.name].columns[0] if TEXT.name in chosen else None
        has_labels = LABEL.name in {one.name for one in roles}
        if role.name == TEXT.name:
            label = chosen[LABEL.name].columns[:1] if LABEL.name in chosen else ()
            cure = _text_cure(free or values, where, has_labels, label)
        else:
            cure = _one_hot_cure(free) or _several_cure(free, text) or _objects_cure(names, rows)
            cure = cure or _label_cure(free, where, text)
    else:
        taken = {column for choice in chosen.values() for column in choice.columns}
        example = next((name for name in names if name.strip() and name not in taken), "NAME")
        cure = f"Pass its name, as in {option} {quoted(example)}."
    return NoColumnError(f"{problem} {cure}", role.name)


def _text_cure(values: Mapping[str, Sequence[str]], where: str, has_labels: bool, label: Sequence[str] = ()) -> str:
    """What to do if a table has no column of texts.

    Args:
        values: the columns that may have texts.
        where: the file.
        has_labels: whether labels are read too, to train on or to compare with.
        label: the column of labels that is found, if any.
    """
    sizes = {name: mean_words(own) for name, own in values.items() if own and not repeats(own)}
    texts = [name for name, size in sizes.items() if size >= 2]
    numbers = [name for name, own in values.items() if own and is_number(own)]
    if not texts and len(numbers) > 1 and has_labels:
        return f"Texts are classified, not rows of numbers. {_regress_cure(numbers, where)}"
    longest = quoted(max(texts or sizes or values or ["NAME"], key=lambda name: sizes.get(name, 0)))
    if len(texts) < 2 or not has_labels:
        return f"Pass --text-column {longest}."
    pair = f"--source-column {quoted(texts[0])} --target-column {quoted(texts[1])}"
    if labels := [*label, *_repeated(values)]:
        return (
            f"Pass --text-column {longest} --label-column {quoted(labels[0])} to classify texts, or {pair} for pairs."
        )
    return f"Pass {pair} for pairs, or --text-column {longest} to read one of them."


def _label_cure(values: Mapping[str, Sequence[str]], where: str, text: str | None) -> str:
    """What to do if a table has no column of labels, where ``values`` are the columns that may have some."""
    numbers = [name for name, own in values.items() if own and is_number(own) and not repeats(own)]
    numbers = [name for name in numbers if not ID_NAME.fullmatch(name.strip())]
    found = _repeated(values)
    if numbers and not found:
        return _regress_cure(numbers, where)
    if not found:
        option = (
            f" --text-column {quoted(text or 'NAME')}"
            if text is None or find_column([text], TEXT_COLUMNS) is None
            else ""
        )
        return f"None of them repeats like a label. Use 'catena train lm {where}{option}' to learn from the texts only."
    why = f"{found[0]!r} repeats like a label. " if len(found) == 1 else ""
    return f"{why}Pass {'' if len(found) == 1 else 'its name, as in '}--label-column {quoted(found[0])}."


def _one_hot_cure(values: Mapping[str, Sequence[str]]) -> str:
    """What to do if several columns say yes or no; otherwise ""."""
    names = [name for name, own in values.items() if {value.casefold() for value in own} == {"yes", "no"}]
    if len(names) < 2:
        return ""
    return (
        f"Pass --label-column {quoted(names[0])} for one of its answers, or --multilabel --label-column "
        f"{quoted(','.join(names))} for all that say yes."
    )


def _several_cure(values: Mapping[str, Sequence[str]], text: str | None) -> str:
    """What to do if no column repeats like a label, and one does if its cells are split; otherwise ""."""
    if _repeated(values):
        return ""
    for name, own in values.items():
        for separator in (";", "|", ",") if name != text else ():
            parts = [part.strip() for value in own for part in value.split(separator)]
            joined = sum(separator in value for value in own)
            if joined >= 0.2 * len(own) and repeats(parts) and len(set(parts)) > 1 and mean_words(parts) < 2:
                options = f"--multilabel --label-column {quoted(name)} --label-separator '{separator}'"
                return f"{name!r} has several labels in each cell. Pass {options}."
    return ""


def _objects_cure(names: Sequence[str], rows: _Rows) -> str:
    """What to do if a column has lists of objects, as tools for annotation write them; otherwise ""."""
    for name in names:
        values = [value for row in rows if isinstance(value := lookup(row, name), list) and value]
        if values and all(isinstance(one, dict) for value in values for one in value):
            return (
                f"{name!r} has annotations in a form that is not read. Write them as lists of [start, end, label], "
                f"where start and end are the positions of characters."
            )
    return ""


def _regress_cure(numbers: Sequence[str], where: str) -> str:
    """How to predict one of the columns of numbers."""
    command = f"'catena train regress {where} --value-column {quoted(numbers[-1])}'"
    if len(numbers) == 1:
        return f"{numbers[0]!r} has numbers, not classes. Use {command} to predict them."
    return f"To predict the numbers of a column, such as {numbers[-1]!r}, use {command}."


def _repeated(values: Mapping[str, Sequence[str]]) -> list[str]:
    """The columns whose values repeat like labels."""
    return [n for n, own in values.items() if repeats(own) and len(set(own)) > 1 and mean_words(own) < SENTENCE]


def quoted(name: str) -> str:
    """A name as a shell takes it."""
    return name if name.replace("_", "").replace(".", "").isalnum() else f"'{name}'"
