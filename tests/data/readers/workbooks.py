"""Excel workbooks written by hand, so that no package is needed."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape

MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006/relationships"

Cell = str | int | float | bool | None


def workbook(sheets: Mapping[str, Sequence[Sequence[Cell]]], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    """The bytes of a workbook. Texts that begin with "=" are inline strings, others are shared."""
    strings: list[str] = []
    files = {"[Content_Types].xml": "<Types/>"}
    names = list(sheets)
    entries = "".join(f'<sheet name="{n}" sheetId="{i}" r:id="rId{i}"/>' for i, n in enumerate(names, start=1))
    files["xl/workbook.xml"] = f'<workbook xmlns="{MAIN}" xmlns:r="{RELATIONS}"><sheets>{entries}</sheets></workbook>'
    links = "".join(f'<Relationship Id="rId{i}" Target="worksheets/s{i}.xml"/>' for i in range(1, len(names) + 1))
    files["xl/_rels/workbook.xml.rels"] = f'<Relationships xmlns="{PACKAGE}">{links}</Relationships>'
    for i, name in enumerate(names, start=1):
        files[f"xl/worksheets/s{i}.xml"] = _sheet(sheets[name], strings)
    shared = "".join(f"<si><t>{escape(text)}</t></si>" for text in strings)
    files["xl/sharedStrings.xml"] = f'<sst xmlns="{MAIN}">{shared}</sst>'
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return stream.getvalue()


def _sheet(rows: Sequence[Sequence[Cell]], strings: list[str]) -> str:
    lines = []
    for number, row in enumerate(rows, start=1):
        cells = "".join(
            _cell(f"{_letters(j)}{number}", value, strings) for j, value in enumerate(row) if value is not None
        )
        lines.append(f'<row r="{number}">{cells}</row>')
    return f'<worksheet xmlns="{MAIN}"><sheetData>{"".join(lines)}</sheetData></worksheet>'


def _letters(j: int) -> str:
    return (_letters(j // 26 - 1) if j >= 26 else "") + chr(ord("A") + j % 26)


def _cell(reference: str, value: Cell, strings: list[str]) -> str:
    if isinstance(value, bool):
        return f'<c r="{reference}" t="b"><v>{int(value)}</v></c>'
    if isinstance(value, (int, float)):
        return f'<c r="{reference}"><v>{value}</v></c>'
    assert value is not None
    if value.startswith("="):
        return f'<c r="{reference}" t="inlineStr"><is><t>{escape(value)}</t></is></c>'
    strings.append(value)
    return f'<c r="{reference}" t="s"><v>{len(strings) - 1}</v></c>'
