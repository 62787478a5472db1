"""Tables in XML: a sheet of an Excel workbook (``.xlsx``), and translation memories (TMX).

A workbook is a zip archive of XML files: the strings, which cells refer to by number, and a file for each sheet. A
translation memory has segments with their translations, one column for each language.
"""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from xml.etree import ElementTree

from catena.data.examples import SourceLocation
from catena.data.files import open_bytes, reading_errors
from catena.data.readers.delimited import EMPTY, Fields, Row
from catena.data.roles import known_roles
from catena.errors import CatenaError, FormatError
from catena.files import local_copy

_MAIN = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
_RELATION = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}id"
_PARTS = "xl/workbook.xml", "xl/_rels/workbook.xml.rels", "xl/sharedStrings.xml"
_MAX_COLUMNS = 16_384
_HEAD_ROWS = 12
"""Number of rows of each sheet that show whether it has the data."""
_DAMAGE = (ElementTree.ParseError, zipfile.BadZipFile, zlib.error)


def is_workbook(path: Path) -> bool:
    """Whether a file is an Excel workbook."""
    try:
        with zipfile.ZipFile(local_copy(path)) as archive:
            return _PARTS[0] in archive.namelist()
    except (OSError, zipfile.BadZipFile):
        return False


def read_records(path: Path) -> Iterator[Fields]:
    """The rows of the sheet with the data that are not empty; the line is the number of the row."""
    with _open_archive(path) as archive:
        strings = _shared_strings(archive)
        files = _sheet_files(archive)
        yield from _rows(archive, files[_choose(archive, list(files), files, strings)], strings)


def _rows(archive: zipfile.ZipFile, file: str, strings: list[str]) -> Iterator[Fields]:
    with archive.open(file) as sheet:
        number = 0
        for _, row in ElementTree.iterparse(sheet):
            if row.tag != f"{_MAIN}row":
                continue
            number = int(row.get("r", number + 1))
            values = _values(row, strings)
            if any(values):
                yield Fields(number, values, "\t".join(values))
            row.clear()


def sheet_names(path: Path) -> list[str]:
    """The names of all sheets, the one that is read first."""
    with _open_archive(path) as archive:
        files = _sheet_files(archive)
        names = list(files)
        chosen = _choose(archive, names, files, _shared_strings(archive))
        return [chosen, *(name for name in names if name != chosen)]


def _choose(archive: zipfile.ZipFile, names: list[str], files: dict[str, str], strings: list[str]) -> str:
    """The first sheet with common names of columns, or else with data: a workbook may begin with a cover or a chart."""
    filled = []
    for name in names if len(names) > 1 else ():
        try:
            rows = [row.values for row in islice(_rows(archive, files[name], strings), _HEAD_ROWS)]
        except _DAMAGE:
            continue
        if any(len(known_roles(row)) > 1 for row in rows):
            return name
        if len(rows) > 1:
            filled.append(name)
    return filled[0] if filled else names[0]


@contextmanager
def _open_archive(path: Path) -> Iterator[zipfile.ZipFile]:
    """The archive of a workbook. Damage that is found while it is open raises FormatError."""
    with open_bytes(path):  # raises an error if there is no such file
        pass
    try:
        with zipfile.ZipFile(local_copy(path)) as archive:
            yield archive
    except CatenaError:
        raise
    except (*_DAMAGE, KeyError, ValueError, EOFError, OSError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise FormatError(f"Cannot read {path} as an Excel workbook ({reason}). Save it as CSV UTF-8.") from None


def _sheets(archive: zipfile.ZipFile) -> list[ElementTree.Element]:
    sheets = list(ElementTree.fromstring(archive.read(_PARTS[0])).iter(f"{_MAIN}sheet"))
    if not sheets:
        raise ValueError("there is no sheet")
    return sheets


def _sheet_files(archive: zipfile.ZipFile) -> dict[str, str]:
    """The file in the archive of each sheet, by its name. Charts have no rows and are left out."""
    relations = ElementTree.fromstring(archive.read(_PARTS[1]))
    targets = {relation.get("Id"): relation.get("Target", "") for relation in relations}
    found = {}
    for sheet in _sheets(archive):
        target = targets[sheet.get(_RELATION)]
        if "worksheets" in target or len(targets) == 1:
            found[sheet.get("name", "")] = target.removeprefix("/") if target.startswith("/") else f"xl/{target}"
    if not found:
        raise ValueError("there is no sheet with cells")
    return found


def _shared_strings(archive: zipfile.ZipFile) -> list[str]:
    if _PARTS[2] not in archive.namelist():
        return []
    root = ElementTree.fromstring(archive.read(_PARTS[2]))
    return [_text(item) for item in root.iter(f"{_MAIN}si")]


def _text(item: ElementTree.Element) -> str:
    """The text of a string, without the reading aids of Japanese."""
    for aid in item.findall(f"{_MAIN}rPh"):
        item.remove(aid)
    return "".join(part.text or "" for part in item.iter(f"{_MAIN}t"))


def _values(row: ElementTree.Element, strings: list[str]) -> list[str]:
    values: list[str] = []
    for cell in row.iter(f"{_MAIN}c"):
        at = _column(cell.get("r", "")) if cell.get("r") else len(values)
        values += [""] * (at - len(values))
        values.append(_value(cell, strings))
    return values


def _column(reference: str) -> int:
    """The number of a column from 0: A1 is 0, AB7 is 27."""
    number = 0
    for letter in re.match(r"[A-Z]*", reference.upper())[0]:  # type: ignore[index]
        number = 26 * number + ord(letter) - ord("A") + 1
    if not 0 < number <= _MAX_COLUMNS:
        raise ValueError(f"the cell {reference!r} has no column")
    return number - 1


def _value(cell: ElementTree.Element, strings: list[str]) -> str:
    kind = cell.get("t", "n")
    if kind == "inlineStr":
        return _text(cell)
    found = cell.find(f"{_MAIN}v")
    value = "" if found is None else found.text or ""
    if kind == "s":
        return strings[int(value)] if 0 <= int(value) < len(strings) else ""
    if kind == "b":
        return "true" if value == "1" else "false"
    if kind == "e":
        return ""
    return value


# --- translation memories ---------------------------------------------------------------------------------------------


_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"


def read_tmx(path: Path) -> Iterator[Row]:
    """A row for each unit of translation; its line is the number of the unit."""
    number = 0
    try:
        with open_bytes(path) as stream, reading_errors(path):
            for _, element in ElementTree.iterparse(stream):
                if element.tag.rsplit("}", 1)[-1] != "tu":
                    continue
                number += 1
                values = _segments(element)
                raw = "\t".join(values.values())
                yield Row(SourceLocation(str(path), number), values, raw, None if values else EMPTY)
                element.clear()
    except ElementTree.ParseError as error:
        raise FormatError(f"{path}:{error.position[0]} is not valid XML ({error}). Correct it.") from None


def _segments(unit: ElementTree.Element) -> dict[str, str]:
    """The text of each language, by its code without the region."""
    found: dict[str, str] = {}
    for variant in unit:
        language = variant.get(_LANGUAGE) or variant.get("lang")
        segment = next((child for child in variant if child.tag.rsplit("}", 1)[-1] == "seg"), None)
        if language and segment is not None:
            found[language.replace("_", "-").split("-")[0].lower()] = " ".join("".join(segment.itertext()).split())
    return found
