"""Optional packages: imported on first use, with the install command in the error."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from catena.errors import CatenaError, MissingExtraError
from catena.extras import require


def test_require_returns_an_installed_module() -> None:
    assert require("json", "words", "reading") is sys.modules["json"]
    assert require("os.path", "words", "reading") is sys.modules["os.path"]


def test_require_missing_package_raises_with_install_command() -> None:
    sentence = (
        r"^reading Parquet files needs the package no_such_thing, which is not installed. Install it: "
        r"pip install pyarrow$"
    )
    with pytest.raises(MissingExtraError, match=sentence) as caught:
        require("no_such_thing.inside", "parquet", "reading Parquet files")
    assert isinstance(caught.value, ImportError)
    assert isinstance(caught.value, CatenaError)
    assert isinstance(caught.value.__cause__, ModuleNotFoundError)


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_require_with_missing_dependency_names_it(broken: Path) -> None:
    (broken / "needs_more.py").write_text("import no_such_thing.at_all\n")
    sentence = r"^logging needs needs_more, which needs no_such_thing, which is not installed. Install it: pip install"
    with pytest.raises(MissingExtraError, match=sentence):
        require("needs_more", "tensorboard", "logging")


def test_require_broken_package_reports_the_import_error(broken: Path) -> None:
    (broken / "half_built.py").write_text("raise ImportError('libc is too old')\n")
    sentence = (
        r"^logging needs the package half_built, which is installed but cannot be imported "
        r"\(libc is too old\)\. Install it: pip install tensorboard$"
    )
    with pytest.raises(MissingExtraError, match=sentence):
        require("half_built", "tensorboard", "logging")


def test_require_does_not_hide_other_errors(broken: Path) -> None:
    (broken / "crashes.py").write_text("1 / 0\n")
    with pytest.raises(ZeroDivisionError):
        require("crashes", "words", "stemming")


def test_require_imports_on_call(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("imaginary")
    monkeypatch.setitem(sys.modules, "imaginary", module)
    assert require("imaginary", "words", "stemming") is module
