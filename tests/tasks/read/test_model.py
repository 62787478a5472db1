"""BiDAF: its parts by plain loops, its laws (padding, order, gradients), its options, and a task it must learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from catena.attention.flow import AttentionFlow
from catena.data.vocabulary import UNK
from catena.embeddings.config import CharacterConvolutionConfig, EmbeddingConfig, NoCharacterConfig
from catena.encoders.config import RecurrentConfig, TransformerConfig
from catena.tasks.read.answers import AnswerFinder, ReadingOptions
from catena.tasks.read.build import build_bidaf
from catena.tasks.read.config import BiDAFConfig
from catena.tasks.read.data import QuestionSet, ReadingBatch, ReadingTexts, TrainingRows, WindowRows
from catena.tasks.read.model import (
    AnswerLogits,
    BiDAF,
    DistinctTokens,
    NoAnswerBias,
    TokenRows,
    answer_log_probs,
    match_features,
    span_loss,
)
from tests.oracle import reading as oracle
from tests.tasks.read.samples import TEXTS, config, encoding, example, model

CPU = torch.device("cpu")
CLOSE = {"rtol": 0.0, "atol": 1e-10}
ABLATIONS: list[dict[str, Any]] = [
    {},
    {"context_to_query": False},
    {"query_to_context": False},
    {"use_words": False},
    {"characters": NoCharacterConfig()},
    {"end_reads_start": True},
    {"match": True},
    {"no_answer": "bias"},
    {"no_answer": "pooled"},
    {"score": "bilinear"},
    {"modeling": TransformerConfig(d=6, n_heads=2, d_ff=5, dropout=0.0)},
]


def ids(options: dict[str, Any]) -> str:
    return ",".join(f"{k}={v if isinstance(v, str | bool) else v.kind}" for k, v in options.items()) or "whole"


def batch_of(pairs: list[tuple[str, str]]) -> tuple[Any, ReadingBatch]:
    own = encoding()
    texts = ReadingTexts(own, [text for text, _ in pairs], [question for _, question in pairs])
    n = np.arange(len(pairs))
    return own, texts.batch(WindowRows(n, n, np.zeros_like(n), texts.contexts.lengths), CPU)


PAIRS = list(zip(TEXTS, ["Who met Ada ?", "cost", "b c d e a", "x y"], strict=True))


def logits_of(network: BiDAF, batch: ReadingBatch) -> AnswerLogits:
    return network(batch.tokens, batch.context, batch.question)


@pytest.mark.parametrize("options", ABLATIONS, ids=ids)
def test_probabilities_sum_to_one_and_every_part_is_trained(options: dict[str, Any]) -> None:
    own, batch = batch_of(PAIRS)
    network = model(own, **options).double()
    logits = logits_of(network, batch)
    for log_probs in answer_log_probs(logits):
        torch.testing.assert_close(log_probs.exp().sum(1), torch.ones(4, dtype=torch.float64), **CLOSE)
        assert (log_probs[:, 0] == float("-inf")).all() == ("no_answer" not in options)
    real = torch.arange(batch.context.rows.shape[1]) < batch.context.lengths[:, None]
    assert logits.start.isfinite().tolist() == real.tolist()
    starts = torch.tensor([0, 1, 2, -1 if "no_answer" in options else 0])
    span_loss(logits, starts, starts).backward()
    for name, parameter in network.named_parameters():
        if name.endswith("attention.keys.bias"):
            continue  # a softmax does not depend on it
        assert parameter.grad is not None, name
        assert (parameter.grad != 0).any(), name


@pytest.mark.parametrize("options", ABLATIONS, ids=ids)
def test_padding_changes_neither_logits_nor_gradients(options: dict[str, Any]) -> None:
    own, batch = batch_of(PAIRS)
    network = model(own, **options).double()
    results = []
    for more in (0, 3):
        tokens = DistinctTokens(batch.tokens.words, torch.nn.functional.pad(batch.tokens.characters, (0, more)))
        context, question = (
            TokenRows(torch.nn.functional.pad(side.rows, (0, more), value=5), side.lengths)
            for side in (batch.context, batch.question)
        )
        network.zero_grad()
        logits = network(tokens, context, question)
        t = batch.context.rows.shape[1]
        answers = torch.tensor([0, 1, 2, 1])
        span_loss(logits, answers, answers).backward()
        results.append([logits.start[:, :t], logits.end[:, :t], *(p.grad for p in network.parameters())])
    torch.testing.assert_close(results[0], results[1], rtol=0, atol=1e-6)


def test_rows_of_a_batch_are_independent_of_each_other_and_of_their_order() -> None:
    own, batch = batch_of(PAIRS)
    network = model(own, no_answer="pooled").double().eval()
    whole = logits_of(network, batch)
    order = torch.tensor([2, 0, 3, 1])
    sides = (TokenRows(side.rows[order], side.lengths[order]) for side in (batch.context, batch.question))
    turned = network(batch.tokens, *sides)
    torch.testing.assert_close(turned.start, whole.start[order], **CLOSE)
    torch.testing.assert_close(turned.no_answer, whole.no_answer[order], **CLOSE)
    for i, pair in enumerate(PAIRS):
        texts = ReadingTexts(own, [pair[0]], [pair[1]])
        one = np.zeros(1, np.int64)
        alone = texts.batch(WindowRows(one, one, one, texts.contexts.lengths), CPU)
        found = logits_of(network, alone)
        n = int(alone.context.lengths[0])
        torch.testing.assert_close(found.start[0], whole.start[i, :n], **CLOSE)
        torch.testing.assert_close(found.end[0], whole.end[i, :n], **CLOSE)


def test_start_logits_equal_the_equations() -> None:
    """G by double loops and w . [G; M] by sums, from the states of the model's own encoders."""
    own, batch = batch_of(PAIRS[:1])
    network = model(own).double().eval()
    vectors = network.embedding(batch.tokens)
    states = [network.contextual(vectors[side.rows], side.lengths)[0] for side in (batch.context, batch.question)]
    _, _, rows = oracle.flow(states[0].tolist(), states[1].tolist(), network.flow.score.weight.tolist())
    g = torch.tensor(rows, dtype=torch.float64)
    modeled = network.modeling(g[None], batch.context.lengths)
    after = network.output.end(modeled, batch.context.lengths)[0]
    found = logits_of(network, batch)
    for logits, layer, m in (
        (found.start, network.output.start_score, modeled[0]),
        (found.end, network.output.end_score, after),
    ):
        w = layer.weight[0].tolist()
        wanted = [
            sum(a * b for a, b in zip(w, [*gt, *mt], strict=True)) for gt, mt in zip(rows, m.tolist(), strict=True)
        ]
        torch.testing.assert_close(logits[0], torch.tensor(wanted, dtype=torch.float64), **CLOSE)


def test_end_that_reads_the_start_equals_the_equations() -> None:
    own, batch = batch_of(PAIRS[:1])
    network = model(own, end_reads_start=True).double().eval()
    found = logits_of(network, batch)
    g = found.flow.features[0]
    m = network.modeling(found.flow.features, batch.context.lengths)[0]
    p = oracle.softmax(found.start[0].tolist())
    m, g = m.detach(), g.detach()
    expected = [sum(p[t] * float(m[t, k]) for t in range(len(m))) for k in range(m.shape[1])]
    rows = [
        [*g[t].tolist(), *m[t].tolist(), *expected, *(float(a) * b for a, b in zip(m[t], expected, strict=True))]
        for t in range(len(m))
    ]
    after = network.output.end(torch.tensor([rows], dtype=torch.float64), batch.context.lengths)[0]
    wanted = network.output.end_score(torch.cat((g, after), dim=-1))[:, 0]
    torch.testing.assert_close(found.end[0], wanted, **CLOSE)


def test_match_features_equal_loops() -> None:
    """Tokens 1 and 2 are the same word in two spellings; token 3 is unknown, token 4 too."""
    words = torch.tensor([0, 7, 7, UNK, UNK, 9])
    texts = TokenRows(torch.tensor([[1, 3, 5, 2], [5, 4, 1, 0]]), torch.tensor([4, 3]))
    others = TokenRows(torch.tensor([[2, 3, 4], [4, 5, 1]]), torch.tensor([3, 1]))
    found = match_features(words, texts, others)
    assert found.shape == (2, 4, 2)
    for row in range(2):
        read = others.rows[row, : others.lengths[row]].tolist()
        known = [words[token].item() for token in read if words[token] != UNK]
        for t, token in enumerate(texts.rows[row, : texts.lengths[row]].tolist()):
            assert found[row, t].tolist() == [token in read, words[token].item() in known]


def test_embedding_is_a_highway_over_word_and_characters() -> None:
    own, batch = batch_of(PAIRS[:1])
    network = model(own).double().eval()
    embedding = network.embedding
    word = embedding.words.weight[batch.tokens.words]
    spelled = embedding.characters(batch.tokens.characters).clamp_min(0)
    v = torch.cat((word, spelled), dim=-1)
    for layer in embedding.mixing:
        new, gate = layer.maps(v).split(v.shape[-1], dim=-1)
        t = 1 / (1 + torch.exp(-gate))
        v = t * new.clamp_min(0) + (1 - t) * v
    torch.testing.assert_close(embedding(batch.tokens), v, **CLOSE)


def test_context_and_question_have_one_encoder() -> None:
    """A text that is its own question has the same states on both sides."""
    own, batch = batch_of([(TEXTS[0], TEXTS[0])])
    network = model(own).double().eval()
    seen: list[tuple[Tensor, Tensor]] = []
    network.flow.register_forward_pre_hook(lambda _, given: seen.append(given[:2]))
    logits_of(network, batch)
    torch.testing.assert_close(seen[0][0], seen[0][1], **CLOSE)


def test_gradients_equal_finite_differences() -> None:
    own, batch = batch_of(PAIRS[:2])
    network = model(own, no_answer="pooled").double()
    names = ["flow.score.weight", "output.start_score.weight", "no_answer.hidden.weight"]
    values = [network.get_parameter(name).detach().clone().requires_grad_() for name in names]

    def loss(*weights: Tensor) -> Tensor:
        logits = torch.func.functional_call(
            network, dict(zip(names, weights, strict=True)), (batch.tokens, batch.context, batch.question)
        )
        return span_loss(logits, torch.tensor([1, -1]), torch.tensor([2, -1]))

    assert torch.autograd.gradcheck(loss, tuple(values))


# --- loss -------------------------------------------------------------------------------------------------------------


def some_logits(no_answer: bool) -> AnswerLogits:
    start, end = torch.randn(4, 3, dtype=torch.float64), torch.randn(4, 3, dtype=torch.float64)
    start[1, 2] = end[1, 2] = float("-inf")
    none = torch.randn(4, 2, dtype=torch.float64) if no_answer else None
    return AnswerLogits(start, end, none, None)  # type: ignore[arg-type]


def slow_loss(logits: AnswerLogits, starts: list[int], ends: list[int], k: int) -> float:
    total = 0.0
    for q, (s, e) in enumerate(zip(starts, ends, strict=True)):
        for side, (values, gold) in enumerate(((logits.start, s), (logits.end, e))):
            positions = [float(x) for row in values[q * k : q * k + k] for x in row]
            none = [] if logits.no_answer is None else [float(logits.no_answer[q * k : q * k + k, side].mean())]
            probabilities = oracle.softmax([*none, *positions])
            total -= np.log(probabilities[gold + len(none)])
    return total / len(starts)


@pytest.mark.parametrize("no_answer", [False, True])
@pytest.mark.parametrize("k", [1, 2])
def test_span_loss_equals_loops(no_answer: bool, k: int) -> None:
    logits = some_logits(no_answer)
    starts, ends = [0, 1, 2, 1][: 4 // k], [2, 1, 2, 1][: 4 // k]
    if no_answer:
        starts[0] = ends[0] = -1
    found = span_loss(logits, torch.tensor(starts), torch.tensor(ends), k)
    assert float(found) == pytest.approx(slow_loss(logits, starts, ends, k), abs=1e-12)


# --- parts and configs ------------------------------------------------------------------------------------------------


def test_number_of_parameters_equals_the_paper() -> None:
    """1.62 million by the equations; 2.6 million, as Seo et al. state, if the end reads the expected start."""
    own = encoding()
    counts = []
    for end_reads_start in (False, True):
        network = build_bidaf(BiDAFConfig(end_reads_start=end_reads_start), own.words, 100)
        counts.append(sum(p.numel() for n, p in network.named_parameters() if not n.startswith("embedding.words")))
    d, lstm = 100, lambda n: 2 * 4 * 100 * (n + 100 + 2)
    shared = 100 * 16 + (16 * 5 + 1) * d + 2 * (2 * d + 1) * 4 * d
    shared += lstm(2 * d) + 6 * d + lstm(8 * d) + lstm(2 * d) + 10 * d + 10 * d
    assert counts == [shared + lstm(2 * d), shared + lstm(14 * d)]
    assert round(counts[1] / 1e6, 1) == 2.6


def test_parts_are_replaceable() -> None:
    own, batch = batch_of(PAIRS)
    whole = model(own)
    flow = AttentionFlow(whole.contextual.d_out, query_to_context=True)
    other = BiDAF(whole.embedding, whole.contextual, flow, whole.modeling, whole.output, NoAnswerBias())
    logits = logits_of(other, batch)
    assert logits.no_answer is not None
    assert logits.no_answer.tolist() == [[0.0, 0.0]] * 4


def test_unknown_dropout_replaces_rare_words_in_training() -> None:
    own, batch = batch_of(PAIRS)
    network = model(own, unknown_dropout=1e9)
    embedding = network.embedding
    assert set(embedding._with_unknown(batch.tokens.words).tolist()) == {0, 1}
    assert torch.equal(embedding.eval()._with_unknown(batch.tokens.words), batch.tokens.words)


@pytest.mark.parametrize("mode", ["static", "tuned"])
def test_pretrained_vectors_belong_to_the_last_words(mode: str) -> None:
    own = encoding(pretrained=["paris", "ada"])
    vectors = torch.randn(2, 4)
    network = model(own, vectors=vectors, words=EmbeddingConfig(d=4, mode=mode, vectors="x"))
    words = torch.tensor([own.words.ids(["paris", "ada", "zoë", "nowhere"])])
    found = network.embedding.words(words)[0]
    assert torch.equal(found[:2], vectors)
    assert own.words.ids(["nowhere"]) == [1]
    frozen = [p for p in network.embedding.words.parameters() if p.numel() == len(own.words) * 4]
    assert bool(frozen) == (mode == "tuned")


def test_config_without_inputs_raises() -> None:
    with pytest.raises(ValueError, match="use_words must be true"):
        config(use_words=False, characters=NoCharacterConfig())


def test_saved_weights_give_the_same_logits(tmp_path: Any) -> None:
    own, batch = batch_of(PAIRS)
    first, second = model(own, no_answer="bias").eval(), model(own, no_answer="bias").eval()
    torch.save(first.state_dict(), tmp_path / "w.pt")
    second.load_state_dict(torch.load(tmp_path / "w.pt"))
    assert torch.equal(logits_of(first, batch).start, logits_of(second, batch).start)


# --- learning ---------------------------------------------------------------------------------------------------------


def test_model_learns_to_copy_the_word_after_the_key() -> None:
    """The question names a word of the text; the answer is the next one. New texts are answered without error."""
    rng = np.random.default_rng(1)
    names = [f"{a}{b}" for a in "bcdf" for b in "aeio"]

    def sample(n: int) -> list[Any]:
        found = []
        for _ in range(n):
            words = rng.permutation(names)[: rng.integers(4, 7)]
            key = rng.integers(len(words) - 1)
            found.append(example(" ".join(words), f"after {words[key]} ?", str(words[key + 1])))
        return found

    train, test = sample(4000), sample(50)
    own = encoding(["after ?", *(e.context for e in train)])
    network = model(own, d=16, words=EmbeddingConfig(d=16, scale=1.0), characters=NoCharacterConfig())
    rows = TrainingRows(QuestionSet(own, train))
    optimizer = torch.optim.Adam(network.parameters(), 1e-2)
    for step in range(250):
        batch = rows.batch(rng.permutation(len(rows))[:32], CPU)
        loss = span_loss(logits_of(network, batch), batch.starts, batch.ends)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 5.0)
        optimizer.step()
        if step > 60 and float(loss.detach()) < 0.003:
            break
    finder = AnswerFinder(network, own, ReadingOptions(max_answer=3))
    assert [finder.find(e.question, [e.context]).text for e in test] == [e.references[0] for e in test]


def test_character_convolution_reads_short_words() -> None:
    own, batch = batch_of([("a", "b")])
    network = model(own, characters=CharacterConvolutionConfig(d=3, windows=(5,), filters=4), use_words=False)
    assert logits_of(network, batch).start.isfinite().all()


def test_contextual_encoder_may_be_deeper() -> None:
    own, batch = batch_of(PAIRS)
    network = model(own, contextual=RecurrentConfig(d=3, n_layers=2, cell="gru"))
    assert logits_of(network, batch).end.shape == batch.context.rows.shape
