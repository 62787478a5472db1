"""Files of captions: a table, the token file of Flickr8k, Karpathy's JSON, or COCO annotations.

=============  ========================================================================================================
``flickr``     lines of ``picture.jpg#0 <TAB> caption``
``karpathy``   ``{"images": [{"filename": …, "split": …, "sentences": [{"raw": …}, …]}, …]}``
``coco``       ``{"images": [{"id": …, "file_name": …}, …], "annotations": [{"image_id": …, "caption": …}, …]}``
tables         CSV, TSV, JSON lines and others, with a column of file names, a column of captions and optionally one of
               splits; a value may be a list of captions
=============  ========================================================================================================

Several captions of one picture are its references, so they are always read together. Tested in
tests/data/test_captions.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from catena.data.examples import SourceLocation
from catena.data.files import open_text
from catena.data.reading import ReadCounter
from catena.data.records import open_records
from catena.data.roles import FILE, Role, find_column
from catena.errors import FormatError

CaptionFormat = Literal["flickr", "karpathy", "coco", "table"]

_CAPTION_COLUMNS = (
    "caption", "captions", "sentence", "sentences", "description", "descriptions", "comment", "text", "raw",
)  # fmt: skip
_CAPTION = Role("caption", _CAPTION_COLUMNS, is_list=True)
_SPLIT = Role("split", ("split", "part", "subset"), required=False)
_FLICKR_LINE = re.compile(r"(?P<name>[^\t]+?)#\d+\t(?P<caption>.*)")
_BINARY = (".xlsx", ".parquet", ".arrow", ".feather")
_PARTS = {
    **dict.fromkeys(("train", "training", "restval"), "train"),
    **dict.fromkeys(("dev", "val", "valid", "validation"), "dev"),
    **dict.fromkeys(("test", "testing"), "test"),
}
"""Names of splits, as files have them."""


@dataclass(frozen=True, slots=True)
class CaptionedPicture:
    """A picture file and its captions.

    Args:
        path: the file.
        captions: the captions; empty if they are to be predicted.
        part: train, dev or test if the file has splits, otherwise empty.
    """

    path: Path
    captions: tuple[str, ...]
    location: SourceLocation
    part: str = ""


_Row = tuple[str, tuple[str, ...], str, SourceLocation]
"""The name of a picture, captions, the name of its split, and the source location."""


def detect_captions(path: Path, encoding: str | None = None) -> CaptionFormat:
    """The format of a file of captions."""
    if path.suffix in _BINARY:
        return "table"
    with open_text(path, encoding) as lines:
        first = next((line for _, line in lines if line.strip()), "")
    if _FLICKR_LINE.fullmatch(first):
        return "flickr"
    if not first.lstrip().startswith("{") or path.suffix == ".jsonl":
        return "table"
    content = _load_object(path, encoding)
    if not isinstance(content, Mapping) or "images" not in content:
        return "table"
    return "coco" if "annotations" in content else "karpathy"


def read_captions(
    path: Path,
    counter: ReadCounter,
    *,
    format: str = "auto",
    images: Path | None = None,
    columns: Mapping[str, str | None] | None = None,
    encoding: str | None = None,
    gold: bool = True,
) -> list[CaptionedPicture]:
    """The pictures of a file with all their captions, in the order of their first occurrence.

    Args:
        path: the file.
        counter: counts pictures, and lists captions that cannot be used.
        format: flickr, karpathy, coco, or a format of tables; detected if it is "auto".
        images: the folder that file names are relative to; the folder of ``path`` if None.
        columns: the columns of "file", "caption" and "split" of a table; found by their names if None.
        encoding: UTF-8 if None.
        gold: whether captions are read; otherwise they may be missing.
    """
    found = detect_captions(path, encoding) if format == "auto" else format
    if found == "flickr":
        listed = _read_flickr(path, counter, encoding)
    elif found in ("karpathy", "coco"):
        listed = (_read_coco if found == "coco" else _read_karpathy)(path, encoding)
    else:
        listed = _read_table(path, counter, None if found in ("table", "auto") else found, columns, encoding, gold)
    pictures = list(counter.seen(_group(listed, images or path.parent, gold)))
    for picture in pictures:
        if gold and not picture.captions:
            counter.drop("without a caption", picture.location, str(picture.path))
    return [picture for picture in pictures if picture.captions or not gold]


def _group(rows: Iterable[_Row], folder: Path, gold: bool) -> Iterator[CaptionedPicture]:
    """One picture for all rows with the same name."""
    found: dict[str, tuple[list[str], str, SourceLocation]] = {}
    for name, captions, split, location in rows:
        own, _, _ = found.setdefault(name, ([], split, location))
        own.extend(" ".join(caption.split()) for caption in captions)
    for name, (captions_of_one, split, location) in found.items():
        part = _PARTS.get(split.strip().lower(), "")
        yield CaptionedPicture(folder / name, tuple(captions_of_one) if gold else (), location, part)


# --- formats ----------------------------------------------------------------------------------------------------------


def _read_flickr(path: Path, counter: ReadCounter, encoding: str | None) -> Iterator[_Row]:
    with open_text(path, encoding) as lines:
        for number, line in lines:
            location, match = SourceLocation(str(path), number), _FLICKR_LINE.fullmatch(line)
            if match and match["caption"].strip():
                yield match["name"], (match["caption"],), "", location
            elif line.strip():
                counter.saw()
                counter.drop("without a caption" if match else "without picture#number and a tab", location, line)


def _load_object(path: Path, encoding: str | None) -> Any:
    with open_text(path, encoding) as lines:
        text = "\n".join(line for _, line in lines)
    try:
        return json.loads(text)
    except ValueError:
        return None


def _read_karpathy(path: Path, encoding: str | None) -> Iterator[_Row]:
    for number, image in enumerate(_load_images(path, encoding)["images"], start=1):
        name = "/".join(filter(None, (str(image.get("filepath") or ""), str(image.get("filename") or ""))))
        sentences = tuple(str(one.get("raw", "")) for one in image.get("sentences", ()))
        yield (
            name,
            tuple(filter(str.strip, sentences)),
            str(image.get("split") or ""),
            SourceLocation(str(path), number),
        )


def _read_coco(path: Path, encoding: str | None) -> Iterator[_Row]:
    content = _load_images(path, encoding)
    names = {image["id"]: str(image["file_name"]) for image in content["images"]}
    for number, one in enumerate(content["annotations"], start=1):
        caption = str(one.get("caption") or "")
        if one.get("image_id") in names and caption.strip():
            yield names[one["image_id"]], (caption,), "", SourceLocation(str(path), number)


def _load_images(path: Path, encoding: str | None) -> Any:
    content = _load_object(path, encoding)
    if not isinstance(content, Mapping) or not isinstance(content.get("images"), list):
        raise FormatError(f'{path} must be a JSON object with a list "images", got something else. Check the format.')
    return content


def _read_table(
    path: Path,
    counter: ReadCounter,
    format: str | None,
    columns: Mapping[str, str | None] | None,
    encoding: str | None,
    gold: bool,
) -> Iterator[_Row]:
    roles = (FILE, _CAPTION, _SPLIT) if gold else (FILE, _SPLIT)
    named = {role.name: column for role in roles if (column := (columns or {}).get(role.name)) is not None}
    named = named or _columns_of_header(path, roles, encoding)
    rows = ReadCounter()
    for record in open_records(path, roles, format=format, columns=named, encoding=encoding).read(rows):
        yield record["file"], (record["caption"] or ()) if gold else (), record["split"] or "", record.location
    counter.saw(len(rows.dropped))
    counter.dropped.extend(rows.dropped)


def _columns_of_header(path: Path, roles: Iterable[Role], encoding: str | None) -> dict[str, str]:
    """The columns by the names in the first line, so that a header is recognized above any number of rows."""
    if path.suffix in (*_BINARY, ".json", ".jsonl"):
        return {}
    with open_text(path, encoding) as lines:
        first = next((line for _, line in lines if line.strip()), "")
    names = [field.strip(' "') for field in re.split(r"[\t,;]", first)]
    found = {role.name: find_column(names, role.columns, exact=True) for role in roles}
    if found["file"] is None or (_CAPTION in roles and found["caption"] is None):
        return {}
    return {name: column for name, column in found.items() if column is not None}
