"""Setup of all tests: shape checks, no network, fixed seeds, one thread for each worker."""

from __future__ import annotations

import gc
import os
import socket
from collections.abc import Iterator
from pathlib import Path

# Numba functions fail under the hook, so compiled loops stay out of it; the import must come before any of catena.
import jaxtyping

from tests.shape_checks import jaxtyped

SRC = Path(__file__).parent.parent / "src" / "catena"
CHECKED = [
    *(f"catena.{path.stem}" for path in SRC.glob("*.py") if path.stem != "__init__"),
    *(f"catena.{path.name}" for path in SRC.glob("[!_]*/") if path.name not in ("kernels", "engine")),
    *(f"catena.engine.{path.stem}" for path in SRC.glob("engine/[!_]*.py") if not path.stem.startswith("cpu")),
]
if not os.environ.get("CATENA_NO_HOOK"):
    jaxtyping.jaxtyped = jaxtyped  # the decorator that the hook writes above every function
    jaxtyping.install_import_hook(CHECKED, "beartype.beartype")

if not Path("/dev/nvidiactl").exists():
    os.environ["TRITON_INTERPRET"] = "1"  # GPU kernels run on the CPU; Triton reads this when torch imports it

import hypothesis  # noqa: E402
import pytest  # noqa: E402
import torch  # noqa: E402

pytest_plugins = ["tests.quick"]

torch.set_num_threads(1)

hypothesis.settings.register_profile(
    "catena",
    deadline=None,  # the machines are noisy
    derandomize=True,
    max_examples=60,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("catena")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--device",
        action="append",
        choices=["cpu", "cuda"],
        help="Device of the structure laws, the stepper laws and the commands; may be repeated. Default: cpu.",
    )
    parser.addoption("--failures", type=Path, help="Append each failure to this file as it happens.")
    parser.addoption("--update-golden", action="store_true", help="Write the recorded outputs of the commands again.")
    parser.addoption("--update-style", action="store_true", help="Write the baseline of the style lint again.")


def pytest_configure(config: pytest.Config) -> None:
    path = config.getoption("--failures")
    if path and not hasattr(
        config, "workerinput"
    ):  # the controller of pytest-xdist receives the reports of all workers
        config.pluginmanager.register(_FailureLog(path))


class _FailureLog:
    """Plugin that appends the id and the traceback of each failed test to a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(f"{report.when} {report.nodeid}\n{report.longreprtext}\n\n")


def devices(config: pytest.Config) -> list[str]:
    """The devices that tests with a parameter ``device`` run on."""
    chosen = config.getoption("--device") or ["cpu"]
    if "cuda" in chosen and not torch.cuda.is_available():
        raise pytest.UsageError("--device cuda needs a CUDA GPU, and torch sees none.")
    return chosen


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "device" in metafunc.fixturenames and "device" not in _own_parameters(metafunc):
        metafunc.parametrize("device", devices(metafunc.config))


def _own_parameters(metafunc: pytest.Metafunc) -> set[str]:
    marks = metafunc.definition.iter_markers("parametrize")
    names = (mark.args[0] if mark.args else mark.kwargs["argnames"] for mark in marks)
    return {name.strip() for one in names for name in (one.split(",") if isinstance(one, str) else one)}


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[object]:
    """Keep the garbage collector from reading the thousands of collected tests again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the documentation pages first: each is one long test, and at the end one worker would wait for it."""
    items.sort(key=lambda item: item.path.name != "test_docs.py")


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing in Catena may reach the network: opening a connection fails the test."""

    def refuse(*args: object, **_: object) -> None:
        raise AssertionError(f"a test tried to connect to {args[1:]}")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket.socket, "connect_ex", refuse)


@pytest.fixture(autouse=True)
def fixed_seed() -> None:
    # Where there is no GPU, torch.manual_seed writes the whole stack down for when there is one.
    seed = torch.manual_seed if torch.cuda.is_available() else torch.default_generator.manual_seed
    seed(20261115)


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of evaluation data; skips the test if it is missing."""
    folder = os.environ.get("CATENA_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("CATENA_DATA does not name a folder with the evaluation data")
    return Path(folder)
