"""What the tests of readers share: arbitrary texts, and a file for them to be written to."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hypothesis import strategies as st


def texts(without: str = "", min_size: int = 0) -> st.SearchStrategy[str]:
    """Texts of one line in any script, with the characters that break lines elsewhere (U+2028, form feed, …)."""
    alphabet = st.characters(exclude_categories=["Cs"], exclude_characters="\r\n\0" + without)
    odd = st.sampled_from([c for c in "\u2028\u2029\x85\x0b\x0c\x1c\xa0\u3000\ufeff\"'#()" if c not in without])
    return st.text(alphabet | odd, min_size=min_size, max_size=20)


tokens = texts(without=" \t()", min_size=1).filter(lambda t: t.strip() == t)
labels = st.text(st.characters(categories=["L", "N"], include_characters="_-:"), min_size=1, max_size=8)


@contextmanager
def file_with(content: str) -> Iterator[Path]:
    """A temporary file that holds the content byte for byte."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file.txt"
        path.write_bytes(content.encode())
        yield path
