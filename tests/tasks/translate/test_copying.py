"""A copy model translates names outside every vocabulary."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from catena import config as configs
from catena.data.config import WordTokenizerConfig
from catena.errors import ConfigError
from catena.seq2seq.build import build_encoder_decoder
from catena.seq2seq.config import RecurrentSeq2SeqConfig
from catena.tasks.runs import load_task, train_run
from catena.tasks.translate.config import TranslateConfig, TranslateOptions
from catena.tasks.translate.task import TranslateTask
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
def model(tmp_path_factory: pytest.TempPathFactory) -> TranslateTask:
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
        "search": {"kind": "beam", "beam_size": 2},
    }
    trained = train_run(configs.parse(TranslateConfig, values), folder / "run", SilentReporter())
    assert trained.test_scores["bleu"] > 99.9
    found = load_task(folder / "run", "cpu")
    assert isinstance(found, TranslateTask)
    return found


def test_copy_model_copies_unknown_names(model: TranslateTask) -> None:
    vocabulary = model.encoding.target.vocabulary
    assert vocabulary.tokens(range(len(vocabulary)))[-2:] == ["hello", ","]
    predictions = model.predict(["my name is chandralekha", "this is ανν and 李白"])
    assert [str(one) for one in predictions] == ["hello chandralekha", "hello 李白 , hello ανν"]


def test_copied_name_is_aligned_with_its_source_position(model: TranslateTask) -> None:
    prediction = model.predict(["my name is chandralekha"], TranslateOptions(alignment=True, scores=True))[0]
    assert ("chandralekha", "chandralekha") in (prediction.links or ())


def test_copy_model_ensembles_only_with_copy_models(model: TranslateTask) -> None:
    text = "my name is xyzzy"
    assert str(model.ensemble([model]).predict([text])[0]) == "hello xyzzy"
    encoding, settings = model.encoding, RecurrentSeq2SeqConfig(d=8, d_embedding=8)
    network = build_encoder_decoder(settings, encoding.sides(encoding.target.vocabulary.counts)).eval()
    plain = TranslateTask(model.config.model_copy(update={"model": settings}), encoding, network)
    cut = model.config.model_copy(update={"tokenizer": WordTokenizerConfig()})
    for first, second in ((model, plain), (plain, model), (model, TranslateTask(cut, encoding, model.translator))):
        with pytest.raises(ConfigError, match="needs only copy models with the same tokenizer"):
            first.ensemble([second])
