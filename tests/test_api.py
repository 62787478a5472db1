"""The public API: what each package exports, without importing torch, documented and typed."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

SRC = Path(__file__).parent.parent / "src" / "catena"
PACKAGES = sorted(
    ".".join(path.parent.relative_to(SRC.parent).parts)
    for path in SRC.rglob("__init__.py")
    if "lazy_exports(" in path.read_text(encoding="utf-8")
)
"""The packages that export names lazily."""
REFERENCE = SRC.parent.parent / "docs" / "reference"


def parsed(package: str) -> tuple[list[str], dict[str, str], dict[str, str]]:
    """``__all__``, the table of :func:`lazy_exports`, and the imports under ``TYPE_CHECKING`` of a package."""
    tree = ast.parse((SRC.parent / package.replace(".", "/") / "__init__.py").read_text(encoding="utf-8"))
    names: list[str] = []
    table: dict[str, str] = {}
    imports: dict[str, str] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            names = ast.literal_eval(node.value)
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            table = ast.literal_eval(node.value.args[1])
        elif isinstance(node, ast.If):
            imports = dict(imported(node, package))
    return names, table, imports


def imported(node: ast.If, package: str) -> Iterator[tuple[str, str]]:
    for line in node.body:
        assert isinstance(line, ast.ImportFrom)
        for alias in line.names:
            module = f"{line.module}.{alias.name}:" if line.module == package else str(line.module)
            yield alias.asname or alias.name, module.removeprefix(package) if package != "catena" else module


def exported() -> list[tuple[str, str]]:
    return [(package, name) for package in PACKAGES for name in parsed(package)[0] if name != "__version__"]


def test_public_packages_export_names() -> None:
    assert {"catena", "catena.structure", "catena.search", "catena.attention", "catena.metrics"} <= set(PACKAGES)
    assert len(exported()) > 150


@pytest.mark.parametrize("package", PACKAGES)
def test_all_table_and_type_checking_imports_agree(package: str) -> None:
    names, table, imports = parsed(package)
    assert set(names) - {"__version__"} == set(table)
    assert table == {name: imports[name] for name in table}


def test_importing_packages_does_not_import_torch() -> None:
    code = (
        f"import sys, importlib\nfor p in {PACKAGES!r}: importlib.import_module(p)\nassert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(("package", "name"), exported())
def test_exported_name_is_what_it_says(package: str, name: str) -> None:
    module = importlib.import_module(package)
    value = getattr(module, name)
    assert name in dir(module)
    submodule = SRC.parent / package.replace(".", "/") / f"{name}.py"
    assert inspect.ismodule(value) or not submodule.exists(), "a submodule of the same name would hide it"
    if not inspect.isfunction(value) and not inspect.isclass(value):
        return
    assert inspect.getdoc(value), f"{package}.{name} has no docstring"
    assert not untyped(value), f"{package}.{name} has untyped parameters: {untyped(value)}"


def untyped(value: Any) -> list[str]:
    """The parameters of a callable without an annotation."""
    try:
        signature = inspect.signature(value)
    except (ValueError, TypeError):
        return []
    empty = inspect.Parameter.empty
    return [p.name for p in signature.parameters.values() if p.annotation is empty and p.name not in ("self", "cls")]


def test_exported_functions_and_classes_describe_their_parameters() -> None:
    """At least 80 % of those with parameters have ``Args:`` for all of them; a config has a docstring below each."""
    described = {f"{package}.{name}": describes_parameters(value) for package, name, value in with_parameters()}
    assert len(described) > 250
    missing = sorted(name for name, complete in described.items() if not complete)
    assert len(missing) <= 0.2 * len(described), "\n".join(missing)


def with_parameters() -> Iterator[tuple[str, str, Any]]:
    """Exported functions and classes with parameters of their own, each once."""
    seen = set()
    for package, name in exported():
        value = getattr(importlib.import_module(package), name)
        is_callable = inspect.isfunction(value) or inspect.isclass(value)
        if is_callable and value not in seen and set(parameters(value)) - {"args", "kwargs"}:
            seen.add(value)
            yield package, name, value


def parameters(value: Any) -> list[str]:
    try:
        return [name for name in inspect.signature(value).parameters if name not in ("self", "cls")]
    except (ValueError, TypeError):
        return []


def describes_parameters(value: Any) -> bool:
    _, _, section = inspect.cleandoc(value.__doc__ or "").partition("\nArgs:\n")
    return all(re.search(rf"^    {name}: \S", section, re.MULTILINE) for name in parameters(value))


def test_reference_has_a_page_for_every_package_and_exported_module() -> None:
    """The directive of a package shows all names of its ``__all__``; ``make site`` checks each of them."""
    pages = "".join(path.read_text(encoding="utf-8") for path in REFERENCE.glob("*.md"))
    shown = re.findall(r"^::: (\S+)$", pages, re.MULTILINE)
    values = [getattr(importlib.import_module(package), name) for package, name in exported()]
    modules = {value.__name__ for value in values if inspect.ismodule(value)}
    expected = {*PACKAGES, "catena.checkpoint", "catena.config", *modules}
    assert sorted(shown) == sorted(expected), "each needs a line '::: package' in a page of docs/reference"


def test_page_of_all_public_names_is_current() -> None:
    spec = importlib.util.spec_from_file_location("names", REFERENCE.parent / "site" / "names.py")
    assert spec is not None
    assert spec.loader is not None
    names = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(names)
    page = names.write_names()
    for package, name in exported():
        assert f"\n| `{name}` | " in page.partition(f"\n## {package}\n")[2].partition("\n## ")[0], f"{package}.{name}"
    assert (REFERENCE / "names.md").read_text(encoding="utf-8") == page, "run python docs/site/names.py"


def test_docs_and_examples_import_exported_names_from_their_package() -> None:
    """What a page imports from a private module may change; an exported name stays."""
    root = SRC.parent.parent
    homes: dict[tuple[str, str], set[str]] = {}
    for package in PACKAGES:
        for name, module in parsed(package)[1].items():
            homes.setdefault((package + module if module.startswith(".") else module, name), set()).add(package)
    pages = [root / "README.md", *root.glob("docs/**/*.md"), *root.glob("examples/*.py")]
    lines = re.findall(r"^ *from (catena[\w.]*) import ([^(#\n]+)", "\n".join(map(read_text, pages)), re.MULTILINE)
    imports = {(module, name.split(" as ")[0].strip()) for module, names in lines for name in names.split(",")}
    assert len(imports) > 100
    deep = {f"from {module} import {name}: {homes[module, name]}" for module, name in imports & set(homes)}
    assert not deep, "\n".join(sorted(deep))


def read_text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def test_unknown_name_raises_attribute_error() -> None:
    module = importlib.import_module("catena.structure")
    with pytest.raises(AttributeError, match="has no attribute 'Chain'"):
        module.Chain  # noqa: B018


def test_public_class_names_are_defined_once() -> None:
    """A public class or type alias name stands for one thing in the package."""
    places: dict[str, list[str]] = {}
    for path in sorted(SRC.rglob("*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            for name in defined_types(node):
                places.setdefault(name, []).append(path.relative_to(SRC).as_posix())
    repeated = {name: files for name, files in places.items() if len(files) > 1}
    assert set(repeated) <= ALLOWED, {name: repeated[name] for name in set(repeated) - ALLOWED}
    assert set(repeated) >= ALLOWED, f"no longer repeated, remove from ALLOWED: {ALLOWED - set(repeated)}"


def defined_types(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.ClassDef):
        names = [node.name]
    elif isinstance(node, ast.Assign):
        names = [target.id for target in node.targets if isinstance(target, ast.Name)]
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        names = [node.target.id]
    else:
        names = []
    yield from (name for name in names if name[0] != "_" and not name.isupper() and not name.islower())


ALLOWED: set[str] = set()
