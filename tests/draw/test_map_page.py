"""Map pages contain all points and load nothing from a network."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from catena.draw.map_page import draw_map_page
from catena.errors import DataError


def test_page_contains_all_points_and_needs_no_network(tmp_path: Path) -> None:
    words = ["plain", "</script><b>", "日本", 'say "hi"']
    page = draw_map_page(
        np.array([[0, 0], [4, 2], [2, 2], [1, 1.0]]), words, groups=["x", "y", "x", "z"], title="A & B"
    )
    text = page.save(tmp_path / "map.html").read_text(encoding="utf-8")
    held = json.loads(re.search(r'id="data">(.*?)</script>', text, re.S)[1])
    assert held["name"] == words
    assert held["x"] == [0, 1, 0.5, 0.25]
    assert held["y"] == [1, 0.5, 0.5, 0.75]
    assert held["group"] == [0, 1, 0, 2]
    assert "<title>A &amp; B</title>" in text
    assert not re.search(r"https?:|src=|@import|url\(|fetch|XMLHttp", text)
    assert "@" not in re.sub(r"@media", "", text)


def test_invalid_points_and_paths_raise(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="finite"):
        draw_map_page(np.array([[0, np.inf]]), ["a"])
    with pytest.raises(DataError, match=r"path must end in \.html"):
        draw_map_page(np.array([[0, 0.0]]), ["a"]).save(tmp_path / "map.svg")
