"""Translation memories in TMX: segments with their translations, one column for each language."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

from catena.data.examples import SourceLocation
from catena.data.files import open_bytes, reading_errors
from catena.data.readers.rows import EMPTY, Row
from catena.errors import FormatError

_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"


def read(path: Path) -> Iterator[Row]:
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
