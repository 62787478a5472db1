"""Recorded output of every command and model family, in ``tests/golden``.

Values are masked, since they differ between machines; ``--update-golden`` writes the files. With ``CATENA_GOLDEN`` set
to a folder, unmasked outputs are kept and compared there: for changes that must not change a single digit.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.cli.conftest import Catena
from tests.cli.families import DATA, FAMILIES, Family, device_option

FOLDER = Path(__file__).parent.parent / "golden"
BY_NAME = {family.name: family for family in FAMILIES}
CLOCK = re.compile(r"\b(\d+(\.\d+)? ?(ms|s|m|min|h))+\b|\b\d+(\.\d+)?(k|M)? (\w+)/s\b|\d+:\d\d(:\d\d)?")
SPEED = re.compile(r"^( +\d+ +\d+ .*?)[\d,]+ +(<time>|-)( \*)?$", re.M)
VALUE = re.compile(r"[-+]?\d+\.\d+(e[-+]\d+)?")


def record(family: Family, catena: Catena, root: Path) -> list[str]:
    """The commands of a family, each with its exit code and all it printed."""
    folder = root / family.name
    folder.mkdir()
    blocks = []
    for other in family.others:
        record(BY_NAME[other], catena, root)
    DATA[family.data](folder)
    for use in ((*family.train_command, *device_option(family.train_command, "cpu"), "-o", "RUN"), *family.uses):
        words = family.command(folder, *use)
        option = () if words[0] == "train" else device_option(words, "cpu")
        result = catena(*words, *option)
        assert result.out, use
        shown = " ".join(words).replace(str(root), "~")
        text = (result.out + result.err).replace(str(root), "~")
        text = SPEED.sub(r"\1<speed>  <time>\3", CLOCK.sub("<time>", text.rstrip()))
        blocks.append(f"$ catena {shown}\nexit {result.code}\n{text}\n")
    return blocks


def mask(block: str, trained: bool) -> str:
    """The block with "#" for every value, and two blanks for any larger number of them: values have their own widths.

    What a model predicts that is not ``trained`` depends on the last digits of its scores, so it is masked too.
    """
    block = re.sub(r"scikit-learn [\d.]+\d", "scikit-learn #", block)
    block = re.sub(r"(?<=\S) {2,}", "  ", VALUE.sub("#", block))
    command, code, *lines = block.split("\n")
    if not trained and command.split()[2] in ("predict", "generate", "draw", "correct"):
        lines = ["<predictions>", ""]
    elif not trained and command.split()[2] == "train":
        lines = [line for line in lines if not line.startswith("    | ") and " → " not in line]
        lines = [re.sub(r" \*$|(?<=at step )\d+|(?<=/step-)\d+", "", line) for line in lines]
    elif not trained:
        lines = [re.sub(r"\d+", "#", line) for line in lines]
    return "\n".join([command, code, *(line if len(line) <= 300 else f"{line[:300]}..." for line in lines)])


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_output_of_every_command_is_as_recorded(
    family: Family, catena: Catena, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    blocks = record(family, catena, tmp_path)
    assert [block.split("\n", 2)[1] for block in blocks] == ["exit 0"] * len(blocks)
    text = "\n".join(blocks)
    exact = os.environ.get("CATENA_GOLDEN")
    if exact:
        kept = Path(exact) / f"{family.name}.txt"
        if kept.exists():
            assert text == kept.read_text(encoding="utf-8")
        else:
            kept.write_text(text, encoding="utf-8")
    trained = "--max-steps" not in family.train_command
    golden, masked = FOLDER / f"{family.name}.txt", "\n".join(mask(block, trained) for block in blocks)
    if request.config.getoption("--update-golden"):
        golden.write_text(masked, encoding="utf-8")
    assert masked == golden.read_text(encoding="utf-8")
