"""Encoders of the user: the laws, the values of the module itself, errors, and a run that imports it again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import catena
from catena.encoders.base import Encoder
from catena.encoders.build import build_encoder
from catena.encoders.config import CustomEncoderConfig
from catena.errors import ConfigError, ShapeError
from tests.laws.encoder_laws import EncoderLaws

HERE = __name__


class Window(nn.Module):
    """Reads each position with the one before it."""

    def __init__(self, d_in: int, d: int = 6, flag: bool = False) -> None:
        super().__init__()
        self.d_out, self.flag = d, flag
        self.here, self.before = nn.Linear(d_in, d), nn.Linear(d_in, d, bias=False)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        return torch.tanh(self.here(x) + self.before(nn.functional.pad(x, (0, 0, 1, 0))[:, :-1]))


class Mean(nn.Module):
    """Returns one vector for each sequence instead of one for each position."""

    def __init__(self, d_in: int) -> None:
        super().__init__()
        self.d_out = d_in

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        return x.mean(1)


class Lengths(nn.Module):
    """Returns the lengths that it gets."""

    def __init__(self, d_in: int) -> None:
        super().__init__()
        self.d_out = 1

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        return lengths[:, None, None].expand(*x.shape[:2], 1).float()


class Fails(Lengths):
    """Raises an error."""

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        raise RuntimeError("no such luck")


class Sizeless(nn.Module):
    """Has no d_out."""

    def __init__(self, d_in: int) -> None:
        super().__init__()


def make_list(d_in: int) -> list[int]:
    return [d_in]


def build(name: str, *options: str, d_in: int = 5) -> Encoder:
    return build_encoder(CustomEncoderConfig(module=f"{HERE}:{name}", module_options=options), d_in)


class TestCustom(EncoderLaws):
    @pytest.fixture
    def make(self) -> Callable[[], Encoder]:
        return lambda: build("Window", "d=7")


def test_custom_encoder_equals_its_module() -> None:
    encoder = build("Window", "d=4", "flag=true")
    assert encoder.module.flag is True
    assert encoder.d_out == 4
    x = torch.randn(2, 3, 5)
    expected = encoder.module(x, torch.tensor([3, 3]))
    torch.testing.assert_close(encoder(x), expected, rtol=0, atol=0)


def test_error_of_the_module_is_not_one_of_catena() -> None:
    with pytest.raises(ConfigError, match=r"^The encoder '.*:Fails' failed: RuntimeError: no such luck. Correct"):
        build("Fails")(torch.zeros(1, 2, 5))


def test_custom_encoder_gets_the_lengths() -> None:
    assert build("Lengths")(torch.zeros(2, 3, 5), torch.tensor([3, 1])).flatten().tolist() == [3, 3, 3, 1, 0, 0]


@pytest.mark.parametrize(
    ("module", "options", "match"),
    [
        (
            "no_such_module:A",
            (),
            r"^The encoder 'no_such_module:A' needs the module 'no_such_module', which cannot be .*",
        ),
        (None, (), r"^encoder.module must be set if encoder.kind = 'custom', got none"),
        (f"{HERE}:Windw", (), r"has no class 'Windw': did you mean 'Window'\?$"),
        ("mine.py:Gated", (), r"must be a module and a class, got 'mine.py:Gated'. Write mine:Gated, for example.$"),
        ("mine", (), r"must be a module and a class, got 'mine'. Write mine:Encoder, for example.$"),
        (f"{HERE}:Window", ("dd=3",), r"could not be built: TypeError: .*'dd'.*Check encoder.module_options"),
        (f"{HERE}:Window", ("d",), r"^encoder.module_options must be written as key=value, got 'd'"),
        (f"{HERE}:Sizeless", (), r"^d_out of .*:Sizeless must be a positive integer, got None"),
        (f"{HERE}:make_list", (), r"must be a torch.nn.Module, got list"),
    ],
)
def test_custom_encoder_that_cannot_be_built_is_one_sentence(
    module: str | None, options: tuple[str, ...], match: str
) -> None:
    with pytest.raises(ConfigError, match=match):
        build_encoder(CustomEncoderConfig(module=module, module_options=options), 5)


def test_custom_encoder_with_a_wrong_output_is_an_error() -> None:
    with pytest.raises(ShapeError, match=r"must be a tensor of shape \(2, 3, 5\), got shape \(2, 5\)"):
        build("Mean")(torch.randn(2, 3, 5))


def test_module_with_an_error_is_reported_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_encoder.py").write_text("class Half(", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        ConfigError, match=r"'broken_encoder', which cannot be imported \(SyntaxError: .*Correct the mod"
    ):
        build_encoder(CustomEncoderConfig(module="broken_encoder:Half"), 5)


@pytest.mark.parametrize(("task", "model"), [("classify", "recurrent"), ("tag", "neural")])
def test_run_with_a_custom_encoder_predicts_after_loading(task: str, model: str, tmp_path: Path) -> None:
    train = tmp_path / "train.txt"
    line = "{}\t{} it was {}" if task == "classify" else "{1} {0}\nwas O\n{2} O\n"
    lines = [line.format(*("A", "red") if i % 2 else ("B", "blue"), f"w{i}") for i in range(60)]
    train.write_text("\n".join(lines) + "\n", encoding="utf-8")
    trained = catena.train(
        train,
        task=task,
        output=tmp_path / "run",
        options={
            "model": model,
            "encoder": "custom",
            "module": f"{HERE}:Window",
            "module_options": ("d=8",),
            "max_epochs": 8,
            "learning_rate": 0.05,
            "batch_size": 10,
        },
    )
    words = ["red", "blue"] if task == "classify" else [["red"], ["blue"]]
    before, after = trained.predict(words), catena.load(tmp_path / "run").predict(words)
    assert [str(p) for p in before] == [str(p) for p in after]
    assert "A" in str(before[0])
    assert "B" in str(before[1])
