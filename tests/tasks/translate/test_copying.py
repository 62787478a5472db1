"""A copy model translates names outside every vocabulary."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from catena import config as configs
from catena.data.config import WordTokenizerConfig
from catena.errors import ConfigError
from catena.seq2seq.build import build_encoder_decoder
from catena.seq2seq.recurrent_config import RecurrentSeq2SeqConfig
from catena.tasks.application import PredictOptions
from catena.tasks.translate.application import TranslateApplication
from catena.tasks.translate.config import TranslateConfig
from catena.tasks.translate.predictor import TranslatePredictor
from catena.tasks.translate.search import EnsembleModel
from catena.training.report import SilentReporter


def greetings(n: int, seed: int) -> str:
    """Pairs in which every name is new."""
    rng, lines = np.random.default_rng(seed), []
    for _ in range(n):
        one, other = ("".join(rng.choice(list("bdfgklmnprst"), 5)) for _ in range(2))
        forms = f"my name is {one}	hello {one}", f"this is {one} and {other}	hello {other} , hello {one}"
        lines.append(forms[rng.integers(2)])
    return "".join(line + "\n" for line in lines)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> TranslatePredictor:
    folder = tmp_path_factory.mktemp("copying")
    (folder / "train.tsv").write_text(greetings(320, 0), encoding="utf-8")
    (folder / "test.tsv").write_text(greetings(30, 1), encoding="utf-8")
    values: dict[str, Any] = {
        "machine": {"device": "cpu", "threads": 1},
        "data": {"train": [str(folder / "train.tsv")], "test": str(folder / "test.tsv"), "dev_fraction": 0.05},
        "tokenizer": {"kind": "whitespace"},
        "vocabulary": {"min_count": 5},
        "model": {
            "kind": "copy",
            "d": 32,
            "d_embedding": 16,
            "encoder": {"kind": "recurrent", "d": 16},
            "dropout": 0.0,
        },
        "batches": {"batch_size": 32, "batch_by": "examples"},
        "training": {"optimizer": "adam", "learning_rate": 0.03, "max_epochs": 9, "eval_every": 100},
        "search": {"kind": "beam", "width": 2},
    }
    trained = TranslateApplication().train(
        configs.parse(TranslateConfig, values), folder / "run", SilentReporter(), start_from=None
    )
    assert trained.test_scores["bleu"] > 99.9
    found = TranslateApplication().load(folder / "run", "cpu")
    assert isinstance(found, TranslatePredictor)
    return found


def test_copy_model_copies_unknown_names(model: TranslatePredictor) -> None:
    vocabulary = model.members[0].encoding.target.vocabulary
    assert vocabulary.tokens(range(len(vocabulary)))[-2:] == ["hello", ","]
    answers = model.predict(["my name is chandralekha", "this is ανν and 李白"])
    assert [str(answer) for answer in answers] == ["hello chandralekha", "hello 李白 , hello ανν"]


def test_copied_name_is_aligned_with_its_source_position(model: TranslatePredictor) -> None:
    answer = model.predict(["my name is chandralekha"], PredictOptions(alignment=True, scores=True))[0]
    line = model.write(answer, "my name is chandralekha", "tsv")
    assert "chandralekha|chandralekha" in line


def test_copy_model_ensembles_only_with_copy_models(model: TranslatePredictor) -> None:
    text = "my name is xyzzy"
    assert str(model.together([model]).predict([text])[0]) == "hello xyzzy"
    encoding, settings = model.encoding, RecurrentSeq2SeqConfig(d=8, d_embedding=8)
    network = build_encoder_decoder(settings, encoding.sides(encoding.target.vocabulary.counts)).eval()
    plain = TranslatePredictor(model.config.model_copy(update={"model": settings}), [EnsembleModel(network, encoding)])
    cut = model.config.model_copy(update={"tokenizer": WordTokenizerConfig()})
    for first, second in ((model, plain), (plain, model), (model, TranslatePredictor(cut, model.members))):
        with pytest.raises(ConfigError, match="needs only copy models with the same tokenizer"):
            first.together([second])
