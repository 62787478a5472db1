"""Training: what stands together comes together, bit for bit with one thread, and resumes where it stopped."""

from __future__ import annotations

import numpy as np
import pytest
from pydantic import ValidationError

from catena.errors import CheckpointError, DataError, DivergedError
from catena.vectors.config import (
    CBOWConfig,
    HierarchicalLossConfig,
    NCELossConfig,
    NegativeLossConfig,
    PhraseConfig,
    PVDBOWConfig,
    PVDMConfig,
    SkipGramConfig,
    SoftmaxLossConfig,
    SubwordConfig,
    VectorConfig,
    VectorTrainingConfig,
    WordConfig,
)
from catena.vectors.corpus import corpus_of_sentences
from catena.vectors.learning import TextBlock
from catena.vectors.model import VectorNetwork, new_model
from catena.vectors.table import VectorTable
from catena.vectors.train import Trainer, infer_documents, train_vectors

TOPICS = {"sea": ["ship", "wave", "sail", "salt", "storm"], "bread": ["oven", "flour", "yeast", "crust", "dough"]}


def two_topics(n: int = 400, seed: int = 0) -> list[list[str]]:
    rng = np.random.default_rng(seed)
    names = list(TOPICS)
    return [rng.choice(TOPICS[names[i % 2]], 6).tolist() for i in range(n)]


def settings_of(rate: float = 0.1, epochs: int = 8, threads: int = 1, **choices: object) -> VectorConfig:
    training = VectorTrainingConfig(epochs=epochs, learning_rate=rate, subsample=0.0)
    choices.setdefault("model", SkipGramConfig(d=12, window=3))
    return VectorConfig(words=WordConfig(min_count=1), training=training, threads=threads, **choices)


SMALL = {"d": 12, "window": 3}
WAYS = {
    "skipgram": settings_of(),
    "shared": settings_of(loss=NegativeLossConfig(shared=True)),
    "uniform": settings_of(loss=NegativeLossConfig(power=0.0)),
    "nce": settings_of(loss=NCELossConfig(noise=5)),
    "hierarchical": settings_of(loss=HierarchicalLossConfig()),
    "softmax": settings_of(0.02, loss=SoftmaxLossConfig()),
    "positions": settings_of(model=SkipGramConfig(positions=2, **SMALL)),
    "cbow": settings_of(model=CBOWConfig(**SMALL)),
    "cbow gradient": settings_of(0.3, model=CBOWConfig(whole_error=False, **SMALL)),
    "cbow sum": settings_of(0.05, model=CBOWConfig(combine="sum", whole_error=False, **SMALL)),
    "cbow tree": settings_of(model=CBOWConfig(**SMALL), loss=HierarchicalLossConfig()),
    "product": settings_of(model=CBOWConfig(combine="product", **SMALL)),
    "product unit": settings_of(model=CBOWConfig(combine="product", unit_norm=True, **SMALL)),
    "ngrams": settings_of(subwords=SubwordConfig(shortest=2, longest=4, buckets=500)),
    "dm": settings_of(model=PVDMConfig(**SMALL)),
    "dbow": settings_of(model=PVDBOWConfig(**SMALL)),
}


@pytest.mark.parametrize("way", WAYS)
def test_words_of_a_topic_come_together_and_the_loss_falls(way: str) -> None:
    trained = train_vectors(two_topics(), WAYS[way])
    vectors = VectorTable.of_model(trained.model)
    inside = [vectors.similarity(a, b) for words in TOPICS.values() for a in words for b in words if a < b]
    across = [vectors.similarity(a, b) for a in TOPICS["sea"] for b in TOPICS["bread"]]
    assert np.mean(inside) > np.mean(across) + 0.15
    assert len(trained.losses) == 8
    assert trained.losses[-1] < trained.losses[0]


@pytest.mark.parametrize("way", ["skipgram", "shared", "nce", "dm"])
def test_one_thread_gives_the_same_bits_each_time(way: str) -> None:
    first, second = (train_vectors(two_topics(), WAYS[way]) for _ in range(2))
    assert (first.model.inputs == second.model.inputs).all()
    assert (first.model.outputs == second.model.outputs).all()
    assert first.losses == second.losses
    other = train_vectors(two_topics(), WAYS[way].model_copy(update={"seed": 1}))
    assert (first.model.inputs != other.model.inputs).any()


def test_several_threads_learn_all_the_text() -> None:
    one, three = (train_vectors(two_topics(3000), settings_of(epochs=2, threads=n)) for n in (1, 3))
    assert three.losses == pytest.approx(one.losses, rel=0.05)


def test_losses_are_means_over_the_examples_of_each_epoch() -> None:
    """Outputs of zero give every choice the probability 1/2, so the first loss is (noise + 1) log 2 for any text."""
    training = VectorTrainingConfig(epochs=2, learning_rate=1e-12, min_learning_rate=0.0, subsample=0.0)
    settings = settings_of().model_copy(update={"training": training})
    trained = train_vectors(two_topics(), settings)
    assert trained.losses == pytest.approx([6 * np.log(2)] * 2, rel=1e-6)


def test_the_step_falls_in_proportion_to_the_words_read_but_never_below_its_least() -> None:
    settings = settings_of(rate=0.1, epochs=4)
    corpus = corpus_of_sentences(two_topics(), settings.words, settings.phrases)
    trainer = Trainer(new_model(settings, corpus.words, corpus.lines), corpus)
    before, rates = 0.0, []
    for status in trainer.run():
        rates.append(status.rate)
        assert status.rate == pytest.approx(max(0.0001, 0.1 * (1 - before)))
        before = status.share
    assert rates[0] == 0.1
    assert len(rates) >= 4


@pytest.mark.parametrize("rounds", [1, 3])
def test_stopped_training_resumes_exactly(rounds: int) -> None:
    settings = settings_of(epochs=3, loss=NCELossConfig(noise=3))
    whole = train_vectors(two_topics(), settings)
    corpus = corpus_of_sentences(two_topics(), settings.words, settings.phrases)
    model = new_model(settings, corpus.words, corpus.lines)
    before = Trainer(model, corpus)
    for i, _ in enumerate(before.run(), start=1):
        if i == rounds:
            break
    assert not before.is_over
    assert before.position.block > 0 or before.position.epoch > 0
    again = VectorNetwork.of_tensors(settings, model.tensors())
    after = Trainer(again, corpus, before.position)
    statuses = list(after.run())
    assert (again.inputs == whole.model.inputs).all()
    assert (again.outputs == whole.model.outputs).all()
    assert (again.bias == whole.model.bias).all()
    assert after.position.epochs == whole.losses
    assert statuses[-1].share == pytest.approx(1.0)
    assert statuses[-1].end_of_epoch


def test_fine_tuning_adds_new_words() -> None:
    old = train_vectors(two_topics(), settings_of()).model
    more = [["ship", "anchor", "wave", "anchor", "sail"]] * 60
    new = train_vectors(more, settings_of(epochs=4), start_from=old).model
    assert list(new.words)[: len(old.words)] == list(old.words)
    assert "anchor" in new.words
    vectors = VectorTable.of_model(new)
    assert vectors.similarity("anchor", "ship") > vectors.similarity("anchor", "oven") + 0.2
    untouched = new.words.number("yeast")
    assert (new.inputs[untouched] == old.inputs[untouched]).all()


@pytest.mark.parametrize("loss", [HierarchicalLossConfig(), SoftmaxLossConfig(), NCELossConfig(noise=3)])
def test_new_words_can_join_under_every_loss(loss: object) -> None:
    old = train_vectors(two_topics(60), settings_of(epochs=1, loss=loss)).model
    new = train_vectors([["ship", "anchor"]] * 9, settings_of(epochs=1, loss=loss), start_from=old).model
    assert len(new.words) == len(old.words) + 1


def test_older_model_of_another_kind_raises_error() -> None:
    old = train_vectors(two_topics(40), settings_of(epochs=1)).model
    with pytest.raises(CheckpointError, match=r"model\.d must be 12 as in the older model, got 20"):
        train_vectors(two_topics(40), settings_of(model=SkipGramConfig(d=20)), start_from=old)


@pytest.mark.parametrize("model", [PVDMConfig(d=12, window=1), PVDBOWConfig(d=12, window=1)])
def test_new_documents_lie_near_the_old_ones_of_their_topic(model: PVDMConfig | PVDBOWConfig) -> None:
    def between_the(words: list[str]) -> list[str]:  # no neighbor shows the topic: the document has to
        return [word for topic_word in words for word in ("the", topic_word)]

    documents = [between_the(words) for words in two_topics()]
    learned = train_vectors(documents, settings_of(rate=0.1, epochs=20, model=model)).model
    outputs, inputs = learned.outputs.copy(), learned.inputs.copy()
    new_ones = [between_the(TOPICS["sea"]), between_the(TOPICS["bread"]), ["never", "seen"]]
    new = infer_documents(learned, new_ones, epochs=40)
    assert (learned.outputs == outputs).all()
    assert (learned.inputs == inputs).all()
    rows = learned.document_vectors()
    topics = rows[0::2].mean(0) - rows[1::2].mean(0)  # from bread to sea
    assert (((rows - rows.mean(0)) @ topics > 0) == (np.arange(len(rows)) % 2 == 0)).mean() > 0.9
    from_the_middle = (new - rows.mean(0)) @ topics
    assert from_the_middle[0] > 0 > from_the_middle[1]
    assert (new == infer_documents(learned, new_ones, epochs=40)).all()


def test_documents_require_paragraph_vectors() -> None:
    model = train_vectors(two_topics(20), settings_of(epochs=1)).model
    with pytest.raises(DataError, match=r"no vectors with model = 'skipgram'. Train with --model dm"):
        infer_documents(model, [["ship"]])


def test_diverged_training_raises_error() -> None:
    with pytest.raises(DivergedError, match="Lower --learning-rate"):
        train_vectors(two_topics(), settings_of(rate=1e30, model=CBOWConfig(combine="sum", **SMALL)))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"model": CBOWConfig(combine="product"), "loss": SoftmaxLossConfig()},
            "model.combine = 'product' requires loss",
        ),
        (
            {"model": CBOWConfig(unit_norm=True), "loss": HierarchicalLossConfig()},
            "model.unit_norm requires loss = 'negative'",
        ),
        ({"model": CBOWConfig(), "loss": NegativeLossConfig(shared=True)}, "loss.shared requires model = 'skipgram'"),
        (
            {"subwords": SubwordConfig(longest=5), "loss": NegativeLossConfig(shared=True)},
            "subwords.longest cannot be combined",
        ),
        (
            {"training": VectorTrainingConfig(learning_rate=1e-5)},
            "training.min_learning_rate must be at most the initial rate 1e-05, got 0.0001",
        ),
    ],
)
def test_invalid_combinations_raise_error(values: dict[str, object], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        VectorConfig(**values)


def test_positions_and_ngrams_have_limits() -> None:
    with pytest.raises(ValidationError, match="must be at most 6"):
        SkipGramConfig(window=3, positions=7)
    with pytest.raises(ValidationError, match=r"subwords\.shortest must be at most subwords\.longest = 3, got 6"):
        SubwordConfig(shortest=6, longest=3)


def blocks_of(trainer: Trainer) -> list[TextBlock]:
    """The blocks of a training, in the order in which they are learned; nothing is."""
    blocks = []

    def learn(block: TextBlock) -> np.ndarray:
        blocks.append(block)
        return np.zeros(2)

    trainer.learner.learn = learn  # type: ignore[method-assign]
    for _ in trainer.run():
        pass
    return blocks


def test_each_epoch_takes_every_piece_once_in_an_order_of_its_own() -> None:
    lines = [line[: 1 + i % 6] for i, line in enumerate(two_topics(12000))]
    corpus = corpus_of_sentences(lines, WordConfig(min_count=1), PhraseConfig())
    settings = settings_of(epochs=3)
    trainer = Trainer(new_model(settings, corpus.words, corpus.lines), corpus)
    n, blocks = trainer.n_blocks, blocks_of(trainer)
    orders = [np.concatenate([block.lines for block in blocks[i : i + n]]).tolist() for i in range(0, 3 * n, n)]
    assert len(blocks) == 3 * n > 150
    assert max(len(block.lows) for block in blocks) > 2
    assert all(sorted(lines) == sorted(orders[0]) for lines in orders)
    assert len({tuple(lines) for lines in (*orders, sorted(orders[0]))}) == 4
    assert np.diff(np.sort(orders[0])).max() < 20  # pieces are a few lines
    sizes = []
    for block in blocks:
        pieces = [block.ids[low:high] for low, high in zip(block.lows, block.highs, strict=True)]
        starts = np.flatnonzero(np.concatenate([[-1], block.ids]) < 0)
        assert (starts[block.lines] == block.lows).all()
        assert all(piece[-1] < 0 for piece in pieces)
        sizes.append(sum(int((piece >= 0).sum()) for piece in pieces))
    assert sum(sizes) == 3 * sum(map(len, lines))
    done = (np.cumsum(sizes) - sizes) / sum(sizes)
    assert [block.rate for block in blocks] == pytest.approx(np.maximum(0.0001, 0.1 * (1 - done)))


def test_a_long_line_is_cut_and_short_ones_are_not() -> None:
    lines = [["ship"] * 7, ["wave"] * 900, *([["sail"] * 9] * 40)]
    corpus = corpus_of_sentences(lines, WordConfig(min_count=1), PhraseConfig())
    trainer = Trainer(new_model(settings_of(epochs=1), corpus.words, corpus.lines), corpus)
    blocks = blocks_of(trainer)
    sizes = np.concatenate([block.highs - block.lows for block in blocks])
    assert sizes.sum() == len(corpus.ids)
    assert 64 <= sorted(sizes)[1] <= sizes.max() == 128


def test_rows_begin_evenly_in_a_box_and_a_quarter_long_whatever_their_size() -> None:
    corpus = corpus_of_sentences(two_topics(40), WordConfig(min_count=1), PhraseConfig())
    for d in (12, 50):
        model = new_model(settings_of(model=PVDBOWConfig(d=d)), corpus.words, corpus.lines)
        rows = np.concatenate([model.word_vectors(), model.document_vectors()])
        assert np.linalg.norm(rows, axis=1).mean() == pytest.approx(0.25, rel=0.06)
        rows = rows / np.abs(rows).max()
        assert np.histogram(rows, 4, (-1, 1))[0] / rows.size == pytest.approx([0.25] * 4, abs=0.06)
        assert not model.outputs.any()


@pytest.mark.parametrize("model", [SkipGramConfig(**SMALL), CBOWConfig(**SMALL)], ids=lambda model: model.kind)
def test_words_without_neighbors_raise_error(model: SkipGramConfig | CBOWConfig) -> None:
    """As those of scripts without blanks, where a line is one word: the loss of nothing was 0."""
    alone = [["ship"], ["wave"], [], ["ship"], ["wave"]]
    with pytest.raises(DataError, match=r"No line has two words .*--tokenizer words, or --tokenizer characters"):
        train_vectors(alone, settings_of(model=model, epochs=1))
    train_vectors([*alone, ["ship", "wave"]], settings_of(model=model, epochs=1))
    train_vectors(alone, settings_of(model=PVDBOWConfig(d=12), epochs=1))
