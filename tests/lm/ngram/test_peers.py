"""Comparison with KenLM: its scores for our files, and the known perplexity of WikiText-2."""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from catena.lm.ngram.model import NgramModel

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def peers() -> Path:
    """The interpreter that has KenLM, or a skip with instructions."""
    python = os.environ.get("CATENA_PEERS", sys.executable)
    if subprocess.run([python, "-c", "import kenlm"], capture_output=True, check=False).returncode:
        pytest.skip("CATENA_PEERS does not name an interpreter with the package kenlm")
    return Path(python)


def full_scores(python: Path, model: Path, sentences: list[str]) -> list[list[float]]:
    program = (
        "import kenlm, json, sys\n"
        "model = kenlm.Model(sys.argv[1])\n"
        "lines = json.load(sys.stdin)\n"
        "print(json.dumps([[p for p, _, _ in model.full_scores(line)] for line in lines]))"
    )
    import json

    done = subprocess.run(
        [str(python), "-c", program, str(model)],
        input=json.dumps(sentences),
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


@pytest.mark.peers
@pytest.mark.parametrize("estimator", ["modified-kneser-ney", "katz", "witten-bell"])
def test_kenlm_scores_of_our_files_are_equal(estimator, peers, tmp_path):
    lines = [line for line in (ROOT / "README.md").read_text(encoding="utf-8").splitlines() if line.strip()]
    model = NgramModel.train(lines[::2], order=4, estimator=estimator)
    model.save_arpa(tmp_path / "a.arpa")
    asked = [" ".join(line.split()) for line in lines]  # KenLM splits only at ASCII blanks
    assert len(asked) > 0
    for sentence, theirs in zip(asked, full_scores(peers, tmp_path / "a.arpa", asked), strict=True):
        ours = [value / math.log(10) for _, value in model.token_scores(sentence)]
        assert ours == pytest.approx(theirs, abs=1e-5)


@pytest.mark.peers
@pytest.mark.data
def test_probabilities_equal_lmplz(real_data, tmp_path):
    lmplz = os.environ.get("CATENA_LMPLZ") or shutil.which("lmplz")
    if not lmplz:
        pytest.skip("CATENA_LMPLZ does not name the program lmplz")
    text = (real_data / "wikitext2_word" / "wiki.valid.tokens").read_text(encoding="utf-8").replace("<unk>", "UNKNOWN")
    (tmp_path / "text").write_text(text, encoding="utf-8")
    for order, prune in ((3, ()), (5, (0, 0, 1))):
        options = ["--prune", *map(str, prune)] if prune else []
        with open(tmp_path / "text", "rb") as stdin, open(tmp_path / "a.arpa", "wb") as stdout:
            command = [lmplz, "-o", str(order), "-S", "200M", "-T", str(tmp_path), *options]
            subprocess.run(command, stdin=stdin, stdout=stdout, stderr=subprocess.DEVNULL, check=True)
        theirs = NgramModel.load(tmp_path / "a.arpa")
        ours = NgramModel.train(tmp_path / "text", order=order, prune=prune)
        assert ours.packed.trie().shape.sizes == theirs.packed.trie().shape.sizes
        for line in text.splitlines()[:400]:
            mine, other = ours.token_scores(line), theirs.token_scores(line)
            assert [v / math.log(10) for _, v in mine] == pytest.approx([v / math.log(10) for _, v in other], abs=1e-5)


@pytest.mark.data
def test_wikitext_2_perplexity_equals_kenlm(real_data):
    """Protocol: every line is a sentence, blank ones too; ``<unk>`` is a word; 245,569 tokens with sentence ends.

    KenLM 0.3.0 reached 220.138 for order 5 and 226.051 for order 3, with ``<unk>`` renamed, which adds a word.
    """
    folder = real_data / "wikitext2_word"
    model = NgramModel.train(folder / "wiki.train.tokens", order=3)
    scored = model.evaluate(folder / "wiki.test.tokens")
    assert scored.tokens == 245_569
    assert scored.perplexity == pytest.approx(226.051, rel=1e-3)
