"""``catena style`` and ``catena texture``: files written, previews, and one sentence for each wrong command."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from tests.cli.conftest import Catena, environment
from tests.niche.style.networks import disk, stripes

Image = pytest.importorskip("PIL.Image")
FAST = ("--layers", "random3,random5", "--threads", "1", "--device", "cpu")


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    Image.fromarray(disk(40, 48)).save(tmp_path / "content.png")
    Image.fromarray(stripes(40, 40)).save(tmp_path / "style.png")
    return tmp_path


def test_texture_writes_a_picture_and_reports_losses(pictures: Path, catena: Catena) -> None:
    done = catena("texture", "style.png", "-o", "out.png", "--steps", "4", "--preview", "2", "--width", "56", *FAST)
    assert done.code == 0
    assert [line.split(":")[0] for line in done.out.splitlines()[:3]] == ["step 0/4", "step 2/4", "step 4/4"]
    assert "wrote out.png, style loss" in done.out
    assert Image.open("out.png").size == (56, 40)


def test_style_repeats_and_takes_several_styles(pictures: Path, catena: Catena) -> None:
    words = ("style", "content.png", "style.png", "content.png", "--mix", "0.8,0.2", "--size", "32", "--steps", "2")
    first = catena(*words, "-o", "a.png", *FAST, "--color", "luminance")
    second = catena(*words, "-o", "b.png", *FAST, "--color", "luminance")
    assert (first.code, second.code) == (0, 0)
    assert "content 0." in first.out
    a, b = np.asarray(Image.open("a.png")), np.asarray(Image.open("b.png"))
    assert a.shape == (27, 32, 3)
    np.testing.assert_array_equal(a, b)


def test_weights_of_a_file_are_used(pictures: Path, catena: Catena) -> None:
    generator = torch.Generator().manual_seed(0)
    arrays = {"features.0.weight": torch.randn(64, 3, 3, 3, generator=generator), "features.0.bias": torch.zeros(64)}
    save_file(arrays, "vgg.safetensors")
    words = ("texture", "style.png", "-o", "out.png", "--steps", "1", "--weights", "vgg.safetensors", "--threads", "1")
    assert "vgg.safetensors does not say which input its network was trained with." in catena(*words).sentence
    assert catena(*words, "--preprocessing", "torchvision").code == 0
    sentence = catena(*words, "--preprocessing", "torchvision", "--layers", "conv4_1").sentence
    assert sentence == "layers must be among conv1_1, got 'conv4_1'. Choose from these."


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("style", "content.png"), 2, "STYLES… is missing. Usage: catena style CONTENT STYLES… -o FILE"),
        (("texture",), 2, "SAMPLE is missing. Usage: catena texture SAMPLE -o FILE"),
        (("texture", "style.png"), 2, "-o is missing. Write 'catena texture style.png -o out.png'."),
        (("texture", "style.png", "-o", "style.png"), 2, "style.png is the input file and would be overwritten."),
        (("texture", "style.png", "-o", "none/a.png"), 2, "Cannot write none/a.png: there is no folder none."),
        (("texture", "style.png", "-o", "a.txt"), 1, "The output must end in .png, .jpg or another ending of pictures"),
        (("texture", "none.png", "-o", "a.png"), 1, "File not found: none.png"),
        (("texture", "broken.png", "-o", "a.png"), 1, "broken.png is not a picture that Pillow can read."),
        (
            ("texture", "tiny.png", "-o", "a.png"),
            1,
            "Height and width must be at least 28 pixels for the layer random55",
        ),
        (("texture", "style.png", "-o", "a.png", "--steps", "0"), 2, "--steps must be 1 or more, got 0"),
        (("texture", "style.png", "-o", "a.png", "--size", "9999"), 2, "--size must be at most 4096, got 9999"),
        (("texture", "style.png", "-o", "a.png", "--max-pixels", "9"), 1, "The number of pixels of style.png must be"),
        (("texture", "style.png", "-o", "a.png", "--preprocessing", "caffe"), 2, "--preprocessing needs --weights."),
        (("texture", "style.png", "-o", "a.png", "--layers", "conv1_1"), 1, "layers must be among random3, random5,"),
    ],
)
def test_wrong_command_is_one_sentence(
    pictures: Path, catena: Catena, words: tuple[str, ...], code: int, sentence: str
) -> None:
    Path("broken.png").write_text("none", encoding="utf-8")
    Image.fromarray(stripes(20, 20)).save("tiny.png")
    done = catena(*words)
    assert done.code == code
    assert done.sentence.startswith(sentence)
    assert not Path("a.png").exists()


def test_ctrl_c_writes_the_best_picture(pictures: Path) -> None:
    command = [sys.executable, "-u", "-m", "catena", "texture", "style.png", "-o", "out.png", "--steps", "100000"]
    running = subprocess.Popen(
        [*command, "--preview", "1", *FAST], cwd=pictures, env=environment(), stdout=subprocess.PIPE, text=True
    )
    assert running.stdout is not None
    for line in running.stdout:
        if line.startswith("step 2/"):
            running.send_signal(signal.SIGINT)
            break
    rest, _ = running.communicate(timeout=120)
    assert running.returncode == 130
    assert "interrupted; wrote out.png" in rest
    assert Image.open(pictures / "out.png").size == (40, 40)
