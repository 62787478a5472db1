"""Train, resume, load, predict, constrain, evaluate, ensemble and draw captions."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import catena
from catena import config as configs
from catena.data.augment import to_unit_scale
from catena.data.reading import ReadCounter
from catena.data.samples.shapes import COLORS, write_scenes, write_shapes
from catena.errors import CheckpointError, ConfigError, DataError
from catena.randomness import Randomness
from catena.tasks.base import Origin
from catena.tasks.caption.config import CaptionConfig, CaptionOptions
from catena.tasks.caption.predict import find_metric
from catena.tasks.caption.task import CaptionTask
from catena.tasks.neural import NetworkTraining
from catena.tasks.runs import load_task, resume_run, train_run
from catena.tasks.sources import Sources
from catena.training.report import SilentReporter
from tests.laws.resume_laws import SEED, killed_anywhere_ends_the_same

pytest.importorskip("PIL")

SMALL: dict[str, Any] = {"d": 16, "d_embedding": 12, "dropout": 0.1, "doubly_stochastic": 0.1}
PIXELS: dict[str, Any] = {
    "encoder": {"kind": "resnet", "depth": 8, "width": 4}, "input": {"height": 16, "width": 16},
}  # fmt: skip


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures with captions, and features: the mean color of each quarter of a 4x4 grid."""
    folder = tmp_path_factory.mktemp("scenes")
    write_scenes(folder, 60, size=16)
    from PIL import Image

    grids = {}
    for path in sorted(folder.glob("*.png")):
        pixels = np.asarray(Image.open(path), np.float32) / 255
        grids[path.name] = pixels.reshape(4, 4, 4, 4, 3).mean(axis=(1, 3)).reshape(16, 3)
    np.savez(folder / "grids.npz", **grids)
    return folder


def config(scenes: Path, kind: str = "soft", *, pixels: bool = False, **sections: Any) -> CaptionConfig:
    values: dict[str, Any] = {"machine": {"device": "cpu", "threads": 1}, **sections}
    features = {} if pixels else {"features": str(scenes / "grids.npz")}
    values["data"] = {"train": [str(scenes / "captions.tsv")], **features, **sections.get("data", {})}
    values["model"] = {"kind": kind, **SMALL, **(PIXELS if pixels else {}), **sections.get("model", {})}
    values.setdefault("training", {"max_steps": 3, "optimizer": "adam", "learning_rate": 0.01})
    values.setdefault("evaluation", {"pictures": 3})
    values.setdefault("batches", {"batch_size": 16})
    return configs.parse(CaptionConfig, values)


def train(made: CaptionConfig, folder: Path) -> CaptionTask:
    train_run(made, folder, SilentReporter())
    task = load_task(folder, "cpu")
    assert isinstance(task, CaptionTask)
    return task


@pytest.fixture(scope="module")
def learned(scenes: Path, tmp_path_factory: pytest.TempPathFactory) -> CaptionTask:
    """A model that has learned the colors."""
    training = {"max_steps": 150, "eval_every": 150, "optimizer": "adam", "learning_rate": 0.02}
    made = config(scenes, training=training, model={"d": 32, "doubly_stochastic": 0.0, "dropout": 0.0})
    return train(made, tmp_path_factory.mktemp("runs") / "learned")


@pytest.mark.parametrize(("kind", "pixels"), [("soft", True), ("soft", False), ("hard", True), ("hard", False)])
def test_every_kind_trains_loads_resumes_and_predicts(kind: str, pixels: bool, scenes: Path, tmp_path: Path) -> None:
    model = train(config(scenes, kind, pixels=pixels), tmp_path / "run")
    first = model.predict([scenes / "00000.png", str(scenes / "00001.png")], CaptionOptions(scores=True))
    assert [one.file for one in first] == [str(scenes / name) for name in ("00000.png", "00001.png")]
    for one in first:
        assert one.log_probs is not None
        assert one.log_prob == pytest.approx(sum(one.log_probs), abs=1e-4)
    resume_run(tmp_path / "run", SilentReporter(), {"max_steps": 4})
    assert catena.load(tmp_path / "run").predict([scenes / "00000.png"])[0].caption is not None


@pytest.mark.parametrize("kind", ["soft", "hard"])
@pytest.mark.parametrize("pixels", [True, False])
def test_killed_training_resumes_exactly(kind: str, pixels: bool, scenes: Path, tmp_path: Path) -> None:
    options = {"augmentation": {"padding": 2, "flip": 0.5}, "word_weight": 0.5} if pixels else {}
    batches = {"batch_size": 8, "by_picture": pixels}
    made = config(scenes, kind, pixels=pixels, model=options, evaluation={"pictures": 0}, batches=batches)
    made = CaptionTask.complete(made, print)

    def make() -> NetworkTraining:
        return CaptionTask.prepare(made, Sources(CaptionTask, made), Origin(Randomness(SEED)))

    killed_anywhere_ends_the_same(make, made.training, tmp_path, kills=[1, 2])


def word_config(scenes: Path, **sections: Any) -> CaptionConfig:
    """A run that trains the encoder to predict the words of captions."""
    model = {"word_weight": 1.0, "augmentation": {"padding": 2, "flip": 0.5}, **sections.pop("model", {})}
    values = {"objective": "words", "batches": {"batch_size": 8, "by_picture": True}, **sections}
    return config(scenes, pixels=True, model=model, **values)


@pytest.mark.parametrize("by_picture", [True, False])
def test_objective_words_changes_only_the_encoder_and_the_words(by_picture: bool, scenes: Path, tmp_path: Path) -> None:
    batches = {"batch_size": 8, "by_picture": by_picture}
    made = CaptionTask.complete(word_config(scenes, mixup=0.5, batches=batches), print)
    before = CaptionTask.prepare(made, Sources(CaptionTask, made), Origin(Randomness(made.seed))).task.network
    after = train(made, tmp_path / "words").network
    changed = {
        name for (name, a), (_, b) in zip(before.named_parameters(), after.named_parameters(), strict=True)
        if not torch.equal(a, b)
    }  # fmt: skip
    assert changed == {name for name, _ in before.named_parameters() if name.split(".")[0] in ("pictures", "words")}
    with pytest.raises(ConfigError, match="objective must be 'captions' to predict captions, got 'words'"):
        load_task(tmp_path / "words", "cpu").predict([scenes / "00000.png"])


def test_killed_training_of_words_resumes_exactly(scenes: Path, tmp_path: Path) -> None:
    made = CaptionTask.complete(word_config(scenes, mixup=0.5), print)

    def make() -> NetworkTraining:
        return CaptionTask.prepare(made, Sources(CaptionTask, made), Origin(Randomness(SEED)))

    killed_anywhere_ends_the_same(make, made.training, tmp_path, kills=[1, 2])


def test_captions_start_from_a_run_of_words_and_resume_exactly(scenes: Path, tmp_path: Path) -> None:
    """The second run starts with the weights of the first, with other augmentation, and resumes exactly."""
    words = train(word_config(scenes), tmp_path / "words")
    ended: list[dict[str, torch.Tensor]] = []
    for n, name in ((2, "stopped"), (4, "whole")):
        training = {"max_steps": n, "eval_every": 1, "optimizer": "adam", "learning_rate": 0.01, "keep_last": 9}
        sections = {"objective": "captions", "training": training, "model": {"augmentation": {"erase": 4}}}
        train_run(word_config(scenes, **sections), tmp_path / name, SilentReporter(), init_from=tmp_path / "words")
        first = load_task(tmp_path / name / "checkpoints" / "step-000000", "cpu").network.state_dict()
        assert all(torch.equal(first[key], value) for key, value in words.network.state_dict().items())
        if name == "stopped":
            resume_run(tmp_path / name, SilentReporter(), {"max_steps": 4})
        last = tmp_path / name / "checkpoints" / "step-000004"
        ended.append(load_task(last, "cpu").network.state_dict())
    assert all(torch.equal(ended[0][key], ended[1][key]) for key in ended[0])
    assert any(not torch.equal(ended[0][key], value) for key, value in words.network.state_dict().items())
    with pytest.raises(CheckpointError, match="the model must have the options of the one in"):
        train_run(
            word_config(scenes, objective="captions", model={"d": 20}), tmp_path / "other", SilentReporter(),
            init_from=tmp_path / "words",
        )  # fmt: skip


def test_learning_words_lowers_their_loss_on_new_pictures(scenes: Path, tmp_path: Path) -> None:
    training = {"max_steps": 40, "eval_every": 40, "optimizer": "adam", "learning_rate": 0.01, "ema": 0.9}
    made = word_config(scenes, training=training, model={"augmentation": {}}, batches={"batch_size": 16})
    task = train(made, tmp_path / "words")
    new = CaptionTask.prepare(made, Sources(CaptionTask, made), Origin(Randomness(made.seed)))
    new.task.network.eval()
    before = new.task.evaluate_dev(new.data.dev).scores()["word_loss"]
    result = task.evaluate_dev(new.data.dev)
    assert result.scores()["word_loss"] < before - 0.5
    assert result.notes() == [
        f"{len(new.data.dev.pictures)} pictures; their captions are not predicted, only which words they have"
    ]


@pytest.mark.parametrize("pixels", [True, False])
def test_batches_by_picture_have_all_captions_of_their_pictures(pixels: bool, scenes: Path, tmp_path: Path) -> None:
    batches = {"batch_size": 8, "by_picture": True}
    made = CaptionTask.complete(config(scenes, pixels=pixels, batches=batches), print)
    training = CaptionTask.prepare(made, Sources(CaptionTask, made), Origin(Randomness(SEED)))
    rows = training.data.train
    wanted: dict[bytes, list[list[int]]] = {}
    for picture, target in zip(rows.rows.tolist(), rows.targets, strict=True):
        wanted.setdefault(rows.contents[picture].tobytes(), []).append(target.tolist())
    found: dict[bytes, list[list[int]]] = {}
    epoch = training.epoch(1)
    assert len(epoch) == -(-len(rows.pictures) // 8)
    for i in range(len(epoch)):
        batch = epoch.batch(i)
        content = batch.source.content
        assert len(content) <= 8
        if pixels:
            content = (255 * content).round().to(torch.uint8).permute(0, 2, 3, 1)
        keys = [one.numpy().tobytes() for one in content.contiguous()]
        for row, target, length in zip(batch.source.rows.tolist(), batch.targets, batch.lengths, strict=True):
            found.setdefault(keys[row], []).append(target[:length].tolist())
        assert batch.tokens == int(batch.lengths.sum())
    assert {key: sorted(found[key]) for key in found} == {key: sorted(wanted[key]) for key in wanted}


@pytest.mark.parametrize("by_picture", [True, False])
def test_pictures_whose_captions_name_directions_are_not_flipped(by_picture: bool, scenes: Path) -> None:
    """With the probability 1, all pictures are flipped but those with "red" in a caption."""
    options = {"augmentation": {"flip": 1.0}, "directions": ["Red"]}
    batches = {"batch_size": 8, "by_picture": by_picture}
    made = CaptionTask.complete(config(scenes, pixels=True, model=options, batches=batches), print)
    training = CaptionTask.prepare(made, Sources(CaptionTask, made), Origin(Randomness(SEED)))
    rows, epoch = training.data.train, training.epoch(1)
    directed = {
        int(i): any("red" in caption.split() for caption in one.captions)
        for i, one in zip(rows.own, rows.pictures, strict=True)
    }
    assert 0 < sum(directed.values()) < len(directed)
    pixels = {int(i): to_unit_scale(torch.from_numpy(rows.contents[i : i + 1]))[0] for i in rows.own}
    allowed = [pixels[i] if kept else pixels[i].flip(2) for i, kept in directed.items()]
    n = 0
    for batch in (epoch.batch(i) for i in range(len(epoch))):
        for one in batch.source.content:
            assert any(torch.allclose(one, other) for other in allowed)
            n += 1
    assert n == (len(rows.pictures) if by_picture else len(rows))


def test_model_learns_colors_and_beats_a_blind_one(learned: CaptionTask, scenes: Path, tmp_path: Path) -> None:
    examples = list(learned.read(learned.config, scenes / "captions.tsv", ReadCounter()))
    found = learned.predict(examples)
    right = [
        sorted(color for color in COLORS for _ in range(text.split().count(color)))
        for text in (one.captions[0] for one in examples)
    ]
    named = [sorted(word for word in one.tokens if word in COLORS) for one in found]
    agreement = np.mean([a == b for a, b in zip(right, named, strict=True)])
    assert agreement > 0.6
    training = {"max_steps": 150, "eval_every": 150, "optimizer": "adam", "learning_rate": 0.02}
    blind = train(config(scenes, training=training, model={"blind": True, "d": 32}), tmp_path / "blind")
    captions = {one.caption for one in blind.predict(examples)}
    assert len(captions) == 1
    scores, blind_scores = learned.evaluate(examples).scores(), blind.evaluate(examples).scores()
    assert scores["bleu_4"] > blind_scores["bleu_4"] + 10
    assert scores["perplexity"] < blind_scores["perplexity"]


def test_saved_model_gives_the_same_captions(learned: CaptionTask, scenes: Path, tmp_path: Path) -> None:
    captioner = catena.Captioner().use_task(learned)
    captioner.save(tmp_path / "model")
    paths = sorted(scenes.glob("*.png"))[:5]
    wanted = captioner.predict(paths, n_best=2)
    found = catena.load(tmp_path / "model").predict(paths, n_best=2)
    assert [[x.caption for x in one.ranked] for one in found] == [[x.caption for x in one.ranked] for one in wanted]
    assert [one.log_prob for one in found] == pytest.approx([one.log_prob for one in wanted], rel=1e-5)


def test_captions_do_not_depend_on_the_other_pictures(learned: CaptionTask, scenes: Path) -> None:
    paths = sorted(scenes.glob("*.png"))[:7]
    together = [one.caption for one in learned.predict(paths)]
    assert [learned.predict([path])[0].caption for path in paths] == together
    assert [one.caption for one in learned.predict(paths[::-1])] == together[::-1]


def test_constraints_hold(learned: CaptionTask, scenes: Path, tmp_path: Path) -> None:
    paths = sorted(scenes.glob("*.png"))[:4]
    options = CaptionOptions(include=("Yellow cross",), exclude=("red", "green"))
    for one in learned.predict(paths, options):
        assert "yellow cross" in one.caption
        assert not {"red", "green"} & set(one.tokens)
    matched = learned.predict(paths, CaptionOptions(regex="a blue (circle|square) and .*"))
    assert all(re.fullmatch("a blue (circle|square) and .*", one.caption) for one in matched)
    (tmp_path / "each.txt").write_text("^a red\n-and\n\ngreen\n")
    own = learned.predict(paths, CaptionOptions(constraint=tmp_path / "each.txt"))
    assert own[0].caption.startswith("a red")
    assert "and" not in own[1].tokens
    assert own[2].caption == learned.predict(paths[2:3])[0].caption
    assert "green" in own[3].tokens


def test_beam_size_one_is_greedy_and_samples_depend_on_the_seed(learned: CaptionTask, scenes: Path) -> None:
    paths = sorted(scenes.glob("*.png"))[:4]
    greedy = learned.predict(paths, CaptionOptions(beam_size=1))
    wide = learned.predict(paths, CaptionOptions(beam_size=5, n_best=3))
    assert all(len(one.n_best) == 3 for one in wide)
    assert all(
        a.log_prob <= b.log_prob + 1e-6 or len(a.tokens) != len(b.tokens) for a, b in zip(greedy, wide, strict=True)
    )
    sampled = [[x.caption for x in one.ranked] for one in learned.predict(paths, CaptionOptions(samples=4, seed=1))]
    assert sampled == [
        [x.caption for x in one.ranked] for one in learned.predict(paths, CaptionOptions(samples=4, seed=1))
    ]
    assert sampled != [
        [x.caption for x in one.ranked] for one in learned.predict(paths, CaptionOptions(samples=4, seed=2))
    ]
    limited = learned.predict(paths, CaptionOptions(max_length=3))
    assert all(len(one.tokens) <= 3 for one in limited)
    assert all(learned.warnings(one, CaptionOptions(max_length=3)) for one in limited if one.truncated)


def test_ensemble_of_one_model_twice_is_that_model(learned: CaptionTask, scenes: Path) -> None:
    paths = sorted(scenes.glob("*.png"))[:4]
    both = learned.ensemble([learned])
    found, wanted = both.predict(paths), learned.predict(paths)
    assert [one.caption for one in found] == [one.caption for one in wanted]
    assert [one.log_prob for one in found] == pytest.approx([one.log_prob for one in wanted], abs=1e-5)
    examples = list(learned.read(learned.config, scenes / "captions.tsv", ReadCounter()))[:4]
    assert "perplexity" not in both.evaluate(examples).scores()


def test_ensemble_of_different_readers_raises(learned: CaptionTask, scenes: Path, tmp_path: Path) -> None:
    other = train(config(scenes, pixels=True), tmp_path / "pixels")
    with pytest.raises(ConfigError, match="read pictures in the same way"):
        learned.ensemble([other])


def test_evaluation_counts_every_reference(learned: CaptionTask, scenes: Path) -> None:
    examples = list(learned.read(learned.config, scenes / "captions.tsv", ReadCounter()))
    result = learned.evaluate(examples)
    captions = [one.caption for one in learned.predict(examples)]
    assert result.scores()["bleu_4"] == pytest.approx(
        float(find_metric("bleu_4", "words")([e.captions for e in examples], captions))
    )
    assert result.notes()[0] == "60 pictures with 120 references"
    loss = 0.0
    with torch.no_grad():
        rows = learned.encode(examples)
        for i in range(len(rows)):
            batch = learned.collate(rows, np.array([i]))
            loss += float(learned.model.token_log_probs(batch.source, batch.targets, batch.lengths).sum())
    assert result.scores()["nats_per_token"] == pytest.approx(-loss / rows.lengths.sum(), rel=1e-5)


def test_drawing_shows_each_word(learned: CaptionTask, scenes: Path, tmp_path: Path) -> None:
    example = learned.to_example(scenes / "00003.png")
    prediction = learned.predict([example], CaptionOptions(attention=True))[0]
    assert prediction.attention is not None
    assert prediction.attention.shape == (len(prediction.tokens), 16)
    assert prediction.attention.sum(axis=1) == pytest.approx(1, abs=1e-5)
    batch = learned.collate(learned.encode([replace(example, captions=(prediction.caption,))]), np.array([0]))
    weights = learned.model.attention(batch.source, batch.targets, batch.lengths)[0][0, 0]
    assert np.allclose(weights[:-1].detach(), prediction.attention, atol=1e-5)
    svg = learned.draw(example, CaptionOptions()).svg
    assert svg.count("data:image/png;base64,") == len(prediction.tokens) + 1
    assert all(f">{word}</text>" in svg for word in prediction.tokens)
    lines = learned.draw_text(example, CaptionOptions()).splitlines()
    assert lines[0] == f"00003.png: {prediction.caption}"
    assert sum(line.count("█") for line in lines) >= 2 * len(prediction.tokens)
    assert json.loads(json.dumps(prediction.to_dict()))["attention"][0] == pytest.approx(
        prediction.attention[0].tolist(), abs=1e-4
    )


def test_encoder_starts_from_a_classifier(scenes: Path, tmp_path: Path) -> None:
    write_shapes(tmp_path / "shapes", 24, size=16)
    values = {
        "model": {"kind": "picture", "encoder": {"kind": "resnet", "depth": 8, "width": 4},
                  "input": {"height": 16, "width": 16}},
        "data": {"train": [str(tmp_path / "shapes")], "dev_fraction": 0.3},
        "training": {"max_steps": 2, "optimizer": "adam"}, "machine": {"device": "cpu", "threads": 1},
    }  # fmt: skip
    from catena.tasks.classify.config import ClassifyConfig

    train_run(configs.parse(ClassifyConfig, values), tmp_path / "classifier", SilentReporter())
    theirs: Any = load_task(tmp_path / "classifier", "cpu").network
    options = {"encoder_run": str(tmp_path / "classifier"), "frozen": True}
    model = train(
        config(scenes, pixels=True, model={"input": {"height": 64, "width": 64}, **options}), tmp_path / "run"
    )
    assert model.config.model.input.height == 16
    own = model.model.pictures.network.state_dict()  # type: ignore[union-attr, operator]
    wanted = theirs.network.encoder.state_dict()
    assert own.keys() == wanted.keys()
    assert all(torch.equal(own[name], wanted[name]) for name in own)
    with pytest.raises(ConfigError, match=r"must be a run of 'catena train classify' on pictures, got .* caption"):
        train(config(scenes, pixels=True, model={"encoder_run": str(tmp_path / "run")}), tmp_path / "other")


def test_estimator_learns_from_lists(scenes: Path) -> None:
    paths = sorted(scenes.glob("*.png"))[:20]
    model = catena.Captioner(
        depth=8, d=16, d_embedding=8, max_steps=20, learning_rate=0.02, device="cpu", threads=1, pictures=2
    )
    model.fit(paths, [["a red circle", "a circle"] if i % 2 else "a blue square" for i in range(20)])
    assert isinstance(model.predict([paths[0]])[0].caption, str)
    assert 0 <= model.score(paths[:4], ["a circle"] * 4) <= 100
    assert model.plot(paths[0], include=["red"]).svg.startswith("<svg")
    with pytest.raises(DataError, match=r"y must have one list of captions per picture \(20\), got 1"):
        model.fit(paths, ["one"])
    with pytest.raises(DataError, match="caption 0 must be a text"):
        model.fit(paths[:1], [3])
    with pytest.raises(DataError, match="picture 0 must be a path"):
        model.fit([4], ["x"])


def test_wrong_inputs_raise(learned: CaptionTask, scenes: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"has no features of nowhere\.png"):
        learned.predict(["nowhere.png"])
    with pytest.raises(DataError, match="a picture must be the path of a file, got int"):
        learned.predict([3])
    for values, words in (
        ({"model": {"encoder": {"kind": "features"}}}, "data.features must be a file"),
        (
            {"data": {"features": "x.npz"}, "model": {"encoder": {"kind": "vgg"}}},
            "model.encoder.kind must be 'features'",
        ),
        ({"training": {"metric": "bleu"}}, "Unknown training.metric 'bleu'"),
        ({"mixup": 0.5}, "mixup must be 0 if objective = 'captions', got 0.5"),
        ({"objective": "words"}, "model.word_weight must be above 0 if objective = 'words', got 0.0"),
        (
            {"objective": "words", "model": {"word_weight": 1.0, "frozen": True}},
            "objective must be 'captions' if there is no encoder to train, got 'words'",
        ),
        (
            {"batches": {"by_picture": True, "batch_by": "tokens", "batch_size": 90}},
            "batches.batch_by must be 'examples' if batches.by_picture = true, got 'tokens'",
        ),
    ):
        with pytest.raises(ConfigError, match=words):
            configs.parse(CaptionConfig, values)
    with pytest.raises(ConfigError, match="Unknown metric 'bleu_5'"):
        find_metric("bleu_5", "words")
    with pytest.raises(DataError, match=r"longer than max_length=1"):
        train(config(scenes, data={"max_length": 1}), tmp_path / "run")
