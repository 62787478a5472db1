"""Diagnosis of a language model: pieces of text, their loss and the verdict on gradients."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from catena.data.config import WhitespaceTokenizerConfig
from catena.data.tokenize import build_tokenizer
from catena.data.vocabulary import Vocabulary
from catena.errors import CatenaError
from catena.lm.base import SPECIALS
from catena.lm.neural_build import build_neural
from catena.lm.neural_config import RNNLMConfig
from catena.lm.ngram.model import NgramModel
from catena.tasks.lm.config import LmConfig
from catena.tasks.lm.counted import NgramLmTask
from catena.tasks.lm.data import LmEncoding
from catena.tasks.lm.diagnose import diagnose, verdict
from catena.tasks.lm.neural import NeuralLmTask

TEXT = "the cat sat on the mat"


@pytest.fixture
def encoding() -> LmEncoding:
    words = sorted(set(TEXT.split()))
    vocabulary = Vocabulary(words, counts=[1] * len(words), specials=SPECIALS)
    return LmEncoding(build_tokenizer(WhitespaceTokenizerConfig(), [TEXT]), vocabulary, "line")


def test_diagnose_loss_is_the_mean_over_tokens(encoding: LmEncoding, tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text(TEXT + "\n", encoding="utf-8")
    torch.manual_seed(1)
    settings = RNNLMConfig(embedding={"d": 5}, encoder={"d": 5, "n_layers": 1, "bidirectional": False})
    model = build_neural(settings, encoding.vocabulary, [1] * len(encoding.vocabulary)).double().eval()
    config = LmConfig(data={"train": ["x.txt"]}, model=settings)
    found = diagnose(NeuralLmTask(config, encoding, model), tmp_path / "x.txt", iterations=3)
    ids = torch.tensor([[*encoding.ids(TEXT), encoding.end]])
    assert (found.sequences, found.steps) == (1, 7)
    wanted = -model.token_log_probs(ids, torch.tensor([7])).mean().item()
    assert found.curvature.loss == pytest.approx(wanted, rel=1e-6)
    assert len(found.flow.inputs) == 7
    x = model.vectors(torch.tensor([[model.begin, *encoding.ids(TEXT)]])).detach().requires_grad_()
    cost = -model.output.log_prob(model.bridge(model.encoder.whole(x)[:, -1]), ids[:, -1]).sum()
    (gradient,) = torch.autograd.grad(cost, x)
    assert found.flow.inputs == pytest.approx(gradient[0].norm(dim=-1).flip(0).tolist(), rel=1e-6)


@pytest.mark.parametrize(
    ("last", "fate"), [(0.009, "vanishes"), (0.011, "holds"), (1.0, "holds"), (99.0, "holds"), (101.0, "explodes")]
)
def test_verdict_vanishes_explodes_or_holds(last: float, fate: str) -> None:
    said = verdict("inputs", [1.0, last**0.5, last])
    assert said == (
        f"inputs: the gradient {fate}: x{last**0.5:.3f} per step back, {last:.2g} of it is left after 2 steps"
    )


def test_verdict_without_gradient() -> None:
    assert verdict("layer 1", [0.0, 0.0]) == verdict("layer 1", [1.0]) == "layer 1: no gradient to follow"


def test_diagnose_ngram_model_raises(encoding: LmEncoding, tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text(TEXT + "\n", encoding="utf-8")
    model = NgramModel.train_ids([encoding.ids(TEXT)], encoding.vocabulary, 2, "witten-bell")
    config = LmConfig(data={"train": ["x.txt"]}, model={"kind": "ngram"})
    with pytest.raises(CatenaError, match=r"got model.kind = 'ngram' and objective.kind = 'next'"):
        diagnose(NgramLmTask(config, encoding, model), tmp_path / "x.txt")
