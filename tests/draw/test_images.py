"""The pictures of the documentation are those that its examples create."""

from __future__ import annotations

import re

import pytest

from tests.draw.images import DOCS, IMAGES, PAGES, blocks, run, shown


def test_draw_page_creates_pictures_it_shows(tmp_path):
    page = DOCS / "draw.md"
    printed = run(page, tmp_path)
    stale = [name for name in shown(page) if (tmp_path / name).read_bytes() != (IMAGES / name).read_bytes()]
    assert not stale, f"these are not what the page makes; write them again with python -m tests.draw.images: {stale}"
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(shown(page)), "all that is saved is shown"
    text = re.search(r"```text\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    assert text
    assert printed.strip() == text[1].strip()


@pytest.mark.parametrize("page", filter(shown, PAGES), ids=lambda page: page.stem)
def test_every_picture_of_page_exists_is_small_and_is_saved_by_its_examples(page):
    code = "\n".join(blocks(page))
    assert shown(page)
    for name in shown(page):
        assert f'"{name}"' in code
        assert 0 < (IMAGES / name).stat().st_size < 40_000
