"""Which column of a table has which role: set by the user, or found by its name or its values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from catena.data.roles import (
    ITEMS,
    LABEL,
    MISSING,
    SOURCE,
    TARGET,
    TEXT,
    ColumnChoice,
    NoColumnError,
    Role,
    find_column,
    find_pair,
)
from catena.data.values import (
    are_written_integers,
    is_date,
    is_id,
    is_label_column,
    is_number,
    is_quantity,
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


def lookup(record: Mapping[str, Any], name: str) -> Any:
    """The value of a column, or of a dotted path into nested objects and lists, or None.

    ``annotations.0.label`` is the label of the first annotation.
    """
    if name in record:
        return record[name]
    value: Any = record
    for part in name.split("."):
        if isinstance(value, Mapping) and part in value:
            value = value[part]
        elif isinstance(value, (list, tuple)) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            return None
    return value


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
            raise _missing(role, names, rows, where, chosen, has_header)
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
    rest = [name for name in free if name not in taken and any(strings([lookup(row, name)]) for row in rows)]
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
        if len(others) == 1 and not is_number([lookup(row, others[0]) for row in rows]):
            return {**chosen, "text": ColumnChoice((others[0],), "values")}
    if "label" in wanted and "label" not in chosen and "text" in chosen:
        if hot := one_hot_columns(rest, rows):
            return {**chosen, "label": ColumnChoice(hot, "values", one_hot=True)}
        texts = [lookup(row, chosen["text"].columns[0]) for row in rows]
        is_label = len(rest) == 1 and is_label_column([lookup(row, rest[0]) for row in rows], texts)
        if is_label and (not has_header or _repeats(rest[0], rows)):
            return {**chosen, "label": ColumnChoice((rest[0],), "values")}
    return chosen


def _may_be_text_or_label(name: str, rows: _Rows) -> bool:
    """Whether the values are not ids, dates or one constant."""
    values = strings((lookup(row, name) for row in rows), MISSING)
    return len(set(values)) > 1 and not is_id(values) and not is_date(values)


def _repeats(name: str, rows: _Rows) -> bool:
    return repeats(strings((lookup(row, name) for row in rows), MISSING))


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
    role: Role, names: Sequence[str], rows: _Rows, where: str, chosen: Mapping[str, ColumnChoice], has_header: bool
) -> NoColumnError:
    """The error for a role without a column, with the likely one."""
    shown = ", ".join(repr(name) for name in names[:20] if name.strip()) + (", …" if len(names) > 20 else "")
    option = f"--{role.name}-column"
    if not has_header:
        problem = f"{where} has {len(names)} columns without names, and the values do not show which is the {role.name}"
        return NoColumnError(f"{problem}. Pass its number, as in {option} 1.", role.name)
    likely = _likely(role, names, rows, chosen)
    taken = {column for choice in chosen.values() for column in choice.columns}
    example = likely or next((name for name in names if name.strip() and name not in taken), "NAME")
    why = f" {likely!r} repeats like a label." if likely and role.name == LABEL.name else ""
    rest = [name for name in names if name not in taken]
    if role.name == LABEL.name and len(rest) == 1 and is_quantity(strings(lookup(row, rest[0]) for row in rows)):
        hint = f" {rest[0]!r} has numbers, not classes. Use 'catena train regress {where}' to predict them."
    elif likely:
        hint = f"{why} Pass {option} {_quoted(example)}."
    else:
        hint = f" Pass its name, as in {option} {_quoted(example)}."
    pair = " and --target-column" if role.name in (SOURCE.name, TARGET.name) else ""
    if pair:
        hint = f" Pass --source-column{pair} by name or number, as in --source-column 1 --target-column 2."
    return NoColumnError(f"{where} has no {role.name} column with a common name, only {shown}.{hint}", role.name)


def _likely(role: Role, names: Sequence[str], rows: _Rows, chosen: Mapping[str, ColumnChoice]) -> str | None:
    """The column with the longest texts, or the only one whose values repeat like labels of the texts."""
    if role.name == TEXT.name:
        sizes = {name: mean_words(strings(lookup(row, name) for row in rows)) for name in names}
        best = max(sizes, key=sizes.__getitem__)
        return best if sizes[best] >= 2 else None
    if role.name != LABEL.name or TEXT.name not in chosen:
        return None
    text = chosen[TEXT.name].columns[0]
    values = {name: strings((lookup(row, name) for row in rows), MISSING) for name in names if name != text}
    found = [name for name, own in values.items() if repeats(own) and not is_date(own)]
    return found[0] if len(found) == 1 else None


def _quoted(name: str) -> str:
    return name if name.replace("_", "").replace(".", "").isalnum() else f"'{name}'"
