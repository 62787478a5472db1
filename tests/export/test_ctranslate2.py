"""A Transformer exported to CTranslate2 generates the same targets with the same scores."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

from catena.errors import ConfigError
from catena.export.ctranslate2 import SpecialTokenNames, check, to_ctranslate2
from catena.search.beam_search import beam
from catena.search.greedy_search import greedy
from catena.seq2seq.base import Source, VocabularyInfo
from catena.seq2seq.config import TransformerSeq2SeqConfig
from catena.seq2seq.transformer import TransformerSeq2Seq, build_transformer

needed = pytest.mark.skipif(find_spec("ctranslate2") is None, reason="needs ctranslate2")
V = 20
TOKENS = SpecialTokenNames(*[["<pad>", "<unk>", "<s>", "</s>", *(f"w{i}" for i in range(V - 4))]] * 2)
SMALL = {"d": 16, "n_heads": 2, "n_encoder_layers": 2, "n_decoder_layers": 2, "d_ff": 24}


def made(**more: Any) -> TransformerSeq2Seq:
    torch.manual_seed(2)
    sides = VocabularyInfo(V, [0, 1, 0, *[3] * (V - 3)], 2, 3, (0, 2), shared=True)
    model = build_transformer(TransformerSeq2SeqConfig(**{**SMALL, **more}), sides).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


@needed
@pytest.mark.parametrize(
    "kind",
    [{}, {"norm": "post", "activation": "gelu", "share": "embeddings"}, {"positions": "learned", "max_length": 40}],
    ids=["pre", "post", "learned"],
)
def test_exported_model_generates_same_targets(kind: dict[str, Any], tmp_path: Path) -> None:
    import ctranslate2

    model = made(**kind)
    to_ctranslate2(model, TOKENS, tmp_path / "model")
    rows = [[4, 5, 6, 7, 3], [9, 3], [12, 11, 10, 3]]
    ids = torch.tensor([row + [0] * (5 - len(row)) for row in rows])
    source = Source(ids, torch.tensor([len(row) for row in rows]))
    there = ctranslate2.Translator(str(tmp_path / "model"), "cpu", inter_threads=1, intra_threads=1)
    given = [[TOKENS.source[i] for i in row] for row in rows]
    stepper = model.stepper(source)
    for width, found in ((1, greedy(stepper, stepper.start(3), 8)), (3, beam(stepper, stepper.start(3), 3, 8))):
        limits = {"min_decoding_length": 0, "max_decoding_length": 8}
        options = {"beam_size": width, "return_scores": True, "length_penalty": 0, **limits}
        assert len(found) == 3
        for theirs, (ours, *_) in zip(there.translate_batch(given, **options), found, strict=True):
            assert theirs.hypotheses[0] == [TOKENS.target[i] for i in ours.ids]
            assert theirs.scores[0] == pytest.approx(ours.log_prob, abs=1e-4)


@needed
def test_int8_weights_score_nearly_same(tmp_path: Path) -> None:
    import ctranslate2

    model = made()
    to_ctranslate2(model, TOKENS, tmp_path / "model", "int8")
    there = ctranslate2.Translator(str(tmp_path / "model"), "cpu", inter_threads=1, intra_threads=1)
    target = [4, 9, 11]
    scored = there.score_batch([["w0", "w1", "</s>"]], [[TOKENS.target[i] for i in target]])[0].log_probs
    source = Source(torch.tensor([[4, 5, 3]]), torch.tensor([3]))
    ours = model.token_log_probs(source, torch.tensor([[*target, 3]]), torch.tensor([4]))[0]
    assert scored == pytest.approx(ours.tolist(), abs=0.2)
    assert scored != pytest.approx(ours.tolist(), abs=1e-6)


@needed
def test_existing_folder_raises(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="already exists"):
        to_ctranslate2(made(), TOKENS, tmp_path)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ({"positions": "rotary"}, "does not support rotary positions"),
        ({"activation": "elu"}, "for CTranslate2, got ELU"),
        ({"output": {"kind": "softmax", "temperature": 2.0}}, "only softmax at temperature 1"),
    ],
)
def test_unsupported_models_raise(kind: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check(made(**kind))
