"""Binary model files that are mapped into memory, so that models of any size load immediately.

The file holds 32 bytes (magic, version, checksum of the rest, length), a header in JSON, and five arrays:
the names of words and where each ends, their counts, histories and slots. Values are little-endian.
"""

from __future__ import annotations

import json
import struct
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from catena.data.vocabulary import Vocabulary
from catena.errors import CatenaError, CheckpointError
from catena.files import atomic_write
from catena.lm.ngram.packed import PackedNgrams
from catena.lm.ngram.trie import NgramInfo

MAGIC, VERSION = b"catNGRAM", 1
_KENLM = b"mmap lm http://kheafield.com/code"
_HEAD = struct.Struct("<8sQQQ")
_ALIGNED = 64
_DTYPES = {"names": "<u1", "ends": "<i8", "counts": "<i8", "histories": "<i4", "slots": "<i4"}


def checksum(data: np.ndarray) -> int:
    """The checksum of an array whose size is a multiple of eight bytes."""
    from catena.kernels.ngram.cpu_arpa import checksum_lanes

    found = np.zeros(1, np.int64)
    checksum_lanes(data.reshape(-1).view(np.uint64), found)
    return int(found[0])


def save_binary(path: Path, packed: PackedNgrams, vocabulary: Vocabulary, about: NgramInfo) -> None:
    """Write a model atomically, so that the path never has a partial file."""
    names = [name.encode("utf-8", "surrogatepass") for name in vocabulary.symbols]
    arrays: dict[str, np.ndarray] = {
        "names": np.frombuffer(b"".join(names), np.uint8),
        "ends": np.cumsum([len(name) for name in names], dtype=np.int64),
        "counts": np.array(vocabulary.counts, np.int64),
        "histories": packed.histories,
        "slots": packed.slots,
    }
    head = {
        "order": packed.order, "v": packed.v, "flat": packed.flat, "specials": list(vocabulary.specials[2:]),
        "about": asdict(about), "sizes": {name: len(array) for name, array in arrays.items()},
    }  # fmt: skip
    text = json.dumps(head, ensure_ascii=True).encode()
    text += b" " * (-(_HEAD.size + len(text)) % _ALIGNED)
    body = b"".join([len(text).to_bytes(8, "little"), text])
    body += b" " * (-(_HEAD.size + len(body)) % _ALIGNED)
    with atomic_write(path) as unfinished:
        with open(unfinished, "wb") as file:
            file.write(bytes(_HEAD.size) + body)
            for name, array in arrays.items():
                raw = np.ascontiguousarray(array, _DTYPES[name])
                raw.tofile(file)
                file.write(bytes(-raw.nbytes % _ALIGNED))
            length = file.tell()
        mapped = np.memmap(unfinished, np.uint8, "r+")
        mapped[: _HEAD.size] = np.frombuffer(
            _HEAD.pack(MAGIC, VERSION, checksum(mapped[_HEAD.size :]), length), np.uint8
        )
        mapped.flush()
        del mapped


def is_binary(path: Path) -> bool:
    """Whether a file starts as a saved model, or as a KenLM file, for which :func:`load_binary` has its own error."""
    with path.open("rb") as file:
        first = file.read(max(len(MAGIC), len(_KENLM)))
    return first.startswith((MAGIC, _KENLM))


def load_binary(path: Path, verify: bool = True) -> tuple[PackedNgrams, Vocabulary, NgramInfo]:
    """Map a file. ``verify`` reads it once to compare its checksum, a third of a second for a gigabyte."""
    if sys.byteorder != "little":
        raise CheckpointError(f"{path} is little-endian, and this machine is not. Load the model on another machine.")
    data = _mapped(path)
    if len(data) < _HEAD.size or data[: len(MAGIC)].tobytes() != MAGIC:
        if data[: len(_KENLM)].tobytes() == _KENLM:
            raise CheckpointError(f"{path} is a KenLM binary file. Load the ARPA file that it was built from.")
        raise CheckpointError(
            f"{path} is neither a saved n-gram model nor an ARPA file. Check the path, or train a model first."
        )
    _, version, wanted, length = _HEAD.unpack(data[: _HEAD.size].tobytes())
    if version != VERSION:
        raise CheckpointError(
            f"The version of {path} must be {VERSION}, got {version}. Install a version of Catena that reads it."
        )
    if length != len(data):
        raise CheckpointError(f"{path} must have {length:,} bytes, got {len(data):,}. Copy it again.")
    if verify and checksum(data[_HEAD.size :]) != wanted:
        raise CheckpointError(f"{path} is damaged: its checksum does not match. Copy it again.")
    try:
        head, arrays = _parts(data)
        names = arrays["names"].tobytes()
        ends = arrays["ends"].tolist()
        symbols = [names[a:b].decode("utf-8", "surrogatepass") for a, b in zip([0, *ends][:-1], ends, strict=True)]
        first = 2 + len(head["specials"])
        counts = arrays["counts"].tolist()
        vocabulary = Vocabulary(symbols[first:], counts[first:], head["specials"], counts[1])
        about = NgramInfo(**{**head["about"], "notes": tuple(head["about"]["notes"])})
        return (
            PackedNgrams(head["order"], head["v"], head["flat"], arrays["histories"], arrays["slots"]),
            vocabulary,
            about,
        )
    except (ValueError, KeyError, TypeError, IndexError, CatenaError):
        raise CheckpointError(f"{path} is damaged: its header cannot be read. Copy it again.") from None


def _mapped(path: Path) -> np.ndarray:
    """The bytes of a file, as copy-on-write memory."""
    try:
        if not path.stat().st_size:
            return np.zeros(0, np.uint8)
        return np.memmap(path, np.uint8, "c").view(np.ndarray)
    except FileNotFoundError:
        raise CheckpointError(f"File not found: n-gram model {path}. Check the path.") from None
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} cannot be read: {error}. Check the file and its permissions.") from None


def _parts(data: np.ndarray) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    size = int.from_bytes(data[_HEAD.size : _HEAD.size + 8].tobytes(), "little")
    head = json.loads(data[_HEAD.size + 8 : _HEAD.size + 8 + size].tobytes())
    at = _HEAD.size + 8 + size
    at += -at % _ALIGNED
    arrays = {}
    for name, dtype in _DTYPES.items():
        nbytes = head["sizes"][name] * np.dtype(dtype).itemsize
        if nbytes < 0 or at + nbytes > len(data):
            raise ValueError("arrays exceed the file")
        arrays[name] = data[at : at + nbytes].view(dtype)
        at += nbytes + -nbytes % _ALIGNED
    return head, arrays
