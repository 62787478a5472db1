"""A small run of every model family and the commands that use it, for the device and golden tests."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from catena.data.audio import write_wav
from catena.data.samples.corpus import load_sample

SHORT = ("--max-steps", "3", "--threads", "1")


@dataclass(frozen=True)
class Family:
    """A model family: how a small model is trained, and which commands use it.

    Args:
        name: its id in the tests.
        data: the name of a function of :data:`DATA`, which writes ``train``, ``test`` and ``input`` files.
        train: the arguments of ``catena train`` behind the files.
        uses: the commands after training; ``RUN`` is the run, ``OTHER`` the runs of ``others``, separated by commas.
        others: families whose runs the training or the commands need.
        resumable: trained in steps, so that ``catena resume`` can continue it.
    """

    name: str
    data: str
    train: tuple[str, ...]
    uses: tuple[tuple[str, ...], ...] = (("predict", "RUN", "input"), ("evaluate", "RUN", "test"))
    others: tuple[str, ...] = ()
    resumable: bool = True

    @property
    def train_command(self) -> tuple[str, ...]:
        return ("train", *self.train)

    def command(self, folder: Path, *words: str) -> list[str]:
        """The words of a command with paths for ``RUN``, ``OTHER`` and the files of the family's folder."""
        others = ",".join(str(folder.parent / name / "run") for name in self.others)
        paths = {"RUN": str(folder / "run"), "OTHER": others}
        names = ("train", "test", "input", "input/low/1.wav", "long", "rules.txt", "averaged", "out.wav")
        paths |= {name: str(folder / name) for name in names}
        return [
            words[0],
            *(word if i == 0 and words[0] == "vectors" else paths.get(word, word) for i, word in enumerate(words[1:])),
        ]


def device_option(words: Sequence[str], device: str) -> tuple[str, ...]:
    """The option that names the device, for commands that compute on one."""
    return () if words[0] in ("average", "vectors") or words[1] == "embed" else ("--device", device)


# --- data -------------------------------------------------------------------------------------------------------------


def labels(folder: Path) -> None:
    rows = [f"{e.labels[0]}\t{e.text}" for e in load_sample("train") if e.labels[0] in ("weather", "play_music")][:60]
    _write(folder, rows[:50], rows[50:], [row.partition("\t")[2] for row in rows[50:]])


def trees(folder: Path) -> None:
    rows = [f"({i % 2} (1 (1 good) (0 {word})) (0 film))" for i, word in enumerate(("old", "new", "red", "dull") * 10)]
    _write(folder, rows[:32], rows[32:], rows[32:])


def columns(folder: Path) -> None:
    names, verbs = ("Ada", "Max", "Ida", "Tom"), ("likes", "sees", "visits")
    sentences = [
        f"{a} B-PER\n{verb} O\nNew B-LOC\n{city} I-LOC\n"
        for i, (a, verb) in enumerate((a, v) for a in names for v in verbs)
        for city in ("York", "Delhi", f"Town{i}")
    ]
    _write(folder, sentences[:30], sentences[30:], ["Ada likes New York", "Max sees Ida"])


def conllu(folder: Path) -> None:
    words = (
        ("the", "DET", 2, "det"),
        ("cat", "NOUN", 3, "nsubj"),
        ("sleeps", "VERB", 0, "root"),
        ("well", "ADV", 3, "advmod"),
    )
    sentence = "".join(
        f"{i}\t{form}\t{form}\t{tag}\t_\t_\t{head}\t{relation}\t_\t_\n"
        for i, (form, tag, head, relation) in enumerate(words, 1)
    )
    nouns = ("cat", "dog", "bird", "cow", "fox", "owl")
    sentences = [
        sentence.replace("cat", noun).replace("well", adverb) for noun in nouns for adverb in ("well", "long", "here")
    ]
    _write(folder, sentences[:14], sentences[14:], ["the cat sleeps well", "the owl sleeps"])


def brackets(folder: Path) -> None:
    nouns = ("cat", "dog", "bird", "cow", "fox", "owl")
    rows = [f"(S (NP (D the) (N {a})) (VP (V sees) (NP (D the) (N {b}))))" for a in nouns for b in nouns]
    _write(folder, rows[:30], rows[30:], ["the cat sees the dog"])


def grammar(folder: Path) -> None:
    brackets(folder)
    (folder / "rules.txt").write_text(
        "S -> NP VP\nNP -> D N\nVP -> V NP\nD -> 'the'\nV -> 'sees'\nN -> 'cat' | 'dog' | 'bird'\n"
        "N -> 'cow' | 'fox' | 'owl'\n"
    )


def words(folder: Path) -> None:
    pairs = [
        (a + b, " ".join((a + b).upper())) for a in ("ba", "do", "ki", "lu") for b in ("ta", "no", "ri", "pe", "su")
    ]
    rows = [f"{a}\t{b}" for a, b in pairs]
    _write(folder, rows[:16], rows[16:], [a for a, _ in pairs[16:]])


def pairs(folder: Path) -> None:
    english, german = ("red", "green", "old", "new"), ("rot", "grün", "alt", "neu")
    nouns = (("house", "Haus"), ("tree", "Baum"), ("car", "Auto"), ("book", "Buch"))  # style: data
    rows = [f"the {e} is {a}\tdas {g} ist {b}" for e, g in nouns for a, b in zip(english, german, strict=True)] * 2
    _write(folder, rows[:28], rows[28:], ["the house is red", "the car is old"])  # style: data


def dialogues(folder: Path) -> None:
    things = ("book", "lamp", "chair")
    rows = [f"where is the {a} {i}\tthe {a} is in room {i}" for i in range(8) for a in things]  # style: data
    _write(folder, rows[:20], rows[20:], ["where is the lamp"])


def text(folder: Path) -> None:
    lines = [
        f"the {a} {v} the {b} ."
        for a in ("cat", "dog", "cow")
        for v in ("sees", "hears")
        for b in ("cat", "dog", "cow", "owl")
    ]
    _write(folder, lines[:20], lines[20:], lines[20:])
    (folder / "long").write_text(" ".join(lines * 20) + "\n")


def recipes(folder: Path) -> None:
    rows = [
        json.dumps(
            {
                "title": f"{a} soup",
                "ingredients": [a, "salt", "water"],
                "directions": f"boil the {a} in water . add salt .",
            }
        )
        for a in (
            "leek",
            "bean",
            "carrot",
            "onion",
            "potato",
            "tomato",
            "lentil",
            "pea",
            "corn",
            "beet",
            "cabbage",
            "kale",
        )
    ]
    _write(folder, rows[:10], rows[10:], rows[10:])


def values(folder: Path) -> None:
    nouns, adjectives = ("garden", "flat", "boat"), ("large", "small", "old", "bright", "quiet")
    rows = [
        f"{adjective} {noun},{3 * i + j},{100 * i + 7 * j + (i * j) % 5}.5"
        for i, noun in enumerate(nouns)
        for j, adjective in enumerate(adjectives * 3)
    ]
    inputs = [row.rpartition(",")[0] for row in rows[1:9:2]]
    header = "text,size,price"
    _write(folder, [header, *rows[::2]], [header, *rows[1::2]], ["text,size", *inputs])


def scenes(folder: Path) -> None:
    from catena.data.samples.shapes import write_scenes

    lines = write_scenes(folder, 24, size=16).read_text(encoding="utf-8").splitlines()
    _write(folder, lines[:33], [lines[0], *lines[33:]], [lines[0], *lines[33:]])


def numbers(folder: Path) -> None:
    rows = [f"{i % 7} {(3 * i) % 5 + 10} {(2 * i) % 9 + 20}" for i in range(8)]
    _write(folder, [], rows, rows)


def sounds(folder: Path) -> None:
    """Recordings of two synthesized voices, in one subfolder for each."""
    samples = np.arange(400)
    for part, n in (("train", 6), ("test", 2), ("input", 2)):
        for i in range(n):
            voice, pitch = (("high", 0.11), ("low", 0.05))[i % 2]
            write_wav(folder / part / voice / f"{i}.wav", 0.5 * np.sin(2 * np.pi * pitch * samples + i), 2000)


def _write(folder: Path, train: list[str], test: list[str], inputs: list[str]) -> None:
    for name, rows in (("train", train), ("test", test), ("input", inputs)):
        (folder / name).write_text("\n".join(rows) + "\n", encoding="utf-8")


DATA: dict[str, Callable[[Path], None]] = {
    function.__name__: function
    for function in (
        labels,
        trees,
        columns,
        conllu,
        brackets,
        grammar,
        words,
        pairs,
        dialogues,
        text,
        recipes,
        values,
        numbers,
        scenes,
        sounds,
    )
}


# --- families ---------------------------------------------------------------------------------------------------------


def _classify(model: str, *options: str, data: str = "labels", more: tuple[tuple[str, ...], ...] = ()) -> Family:
    uses = (("predict", "RUN", "input", "--format", "jsonl"), ("evaluate", "RUN", "test"), *more)
    return Family(f"classify-{model}", data, ("classify", "train", "--model", model, *SHORT, *options), uses)


def _lm(model: str, *options: str, uses: tuple[tuple[str, ...], ...] = (), resumable: bool = True) -> Family:
    common = (
        ("score", "RUN", "input"),
        ("evaluate", "RUN", "test"),
        ("generate", "RUN", "the cat", "--max-length", "5"),
        ("generate", "RUN", "--file", "input", "--max-length", "12", "--search", "beam"),
    )
    train = ("lm", "train", "--model", model, "--threads", "1", *options)
    return Family(f"lm-{model}", "text", train, common + uses, resumable=resumable)


def _regress(model: str, *options: str, resumable: bool = True) -> Family:
    train = (
        "regress",
        "train",
        "--input-format",
        "csv",
        "--model",
        model,
        "--number-columns",
        "size",
        "--threads",
        "1",
    )
    uses = (
        ("predict", "RUN", "input"),
        ("predict", "RUN", "input", "--format", "jsonl", "--level", "0.5"),
        ("evaluate", "RUN", "test"),
        ("compare", "RUN", "RUN", "test", "--samples", "20"),
    )
    return Family(f"regress-{model}", "values", (*train, *options), uses, resumable=resumable)


NEURAL_LM = (("score", "RUN", "long"), ("generate", "RUN", "the", "--include", "owl", "--max-length", "6"))
CORRECT_CHAINS = ("correct", "RUN", "input", "--method", "mcmc", "--steps", "20", "--chains", "2")
DIAGNOSE = ("diagnose", "RUN", "train", "--steps", "6", "--sequences", "2", "--iterations", "2")
TAGGED = (("predict", "RUN", "input", "--confidence", "--format", "jsonl"), ("draw", "RUN", "Ada likes New York"))
PARSED = (("predict", "RUN", "input", "--confidence"), ("draw", "RUN", "the cat sleeps well"))
TRANSLATED = (("predict", "RUN", "input", "--n-best", "2", "--format", "jsonl"),)
PLAIN = (("predict", "RUN", "input"), ("evaluate", "RUN", "test"))

DOCUMENTS = ("vectors", "documents", "input", "-o", "averaged", "--format", "word2vec-text", "--vectors", "RUN")
PLAYED = ("--batch-size", "4", "--dev-episodes", "2", "--test-episodes", "2", "--max-episode-steps", "9")
FAMILIES = (
    _classify("loglinear", more=(("compare", "RUN", "RUN", "test", "--samples", "20"),)),
    _classify("perceptron", more=(("evaluate", "RUN", "test", "--baseline", "svm,majority"),)),
    _classify("mlp"),
    _classify("cnn", more=(("average", "RUN", "RUN", "-o", "averaged"),)),
    _classify("recurrent"),
    _classify("convolution"),
    _classify("transformer"),
    *(_classify(name, data="trees") for name in ("tree_lstm", "recursive", "mv_rnn", "rntn")),
    *(_regress(model, resumable=False) for model in ("linear", "kernel_ridge")),
    _regress("ridge", "--baseline", "mean,svr", resumable=False),
    *(_regress(model, *SHORT[:2], "--variance", "learned") for model in ("mlp", "cnn", "recurrent")),
    Family("tag-neural", "columns", ("tag", "train", "--model", "neural", *SHORT), PLAIN + TAGGED),
    Family("tag-semimarkov", "columns", ("tag", "train", "--structure", "semimarkov", *SHORT), PLAIN + TAGGED),
    Family(
        "tag-features",
        "columns",
        ("tag", "train", "--model", "features", "--threads", "1"),
        PLAIN + TAGGED,
        resumable=False,
    ),
    Family("tag-hmm", "columns", ("tag", "train", "--model", "hmm", "--threads", "1"), PLAIN + TAGGED, resumable=False),
    Family(
        "parse-biaffine",
        "conllu",
        ("parse", "train", "--model", "biaffine", "--input-format", "conllu", *SHORT),
        PLAIN + PARSED,
    ),
    Family(
        "parse-projective",
        "conllu",
        ("parse", "train", "--input-format", "conllu", "--loss", "eisner", "--trees", "projective", *SHORT),
        PLAIN + PARSED,
    ),
    Family(
        "parse-pcfg",
        "brackets",
        ("parse", "train", "--input-format", "brackets", "--model", "pcfg", "--threads", "1"),
        PLAIN,
        resumable=False,
    ),
    Family(
        "parse-grammar",
        "grammar",
        ("parse", "rules.txt", "--model", "grammar", "--threads", "1"),
        PLAIN,
        resumable=False,
    ),
    Family(
        "parse-span", "brackets", ("parse", "train", "--input-format", "brackets", "--model", "span", *SHORT), PLAIN
    ),
    Family(
        "parse-seq2seq",
        "brackets",
        ("parse", "train", "--input-format", "brackets", "--model", "seq2seq", *SHORT),
        PLAIN,
    ),
    Family(
        "transduce-joint", "words", ("transduce", "train", "--model", "joint", "--threads", "1"), PLAIN, resumable=False
    ),
    Family(
        "transduce-baseline",
        "words",
        ("transduce", "train", "--model", "baseline", "--threads", "1"),
        PLAIN,
        resumable=False,
    ),
    Family("transduce-edit", "words", ("transduce", "train", "--model", "edit", *SHORT), PLAIN),
    Family("transduce-seq2seq", "words", ("transduce", "train", "--model", "seq2seq", *SHORT), PLAIN + TRANSLATED),
    *(
        Family(
            f"translate-{model}",
            "pairs",
            ("translate", "train", "--model", model, *SHORT, "--tokenizer", "words"),
            PLAIN + TRANSLATED,
        )
        for model in ("transformer", "recurrent", "convolutional", "copy")
    ),
    *(
        Family(
            f"converse-{model}",
            "dialogues",
            ("converse", "train", "--model", model, "--threads", "1"),
            PLAIN,
            resumable=False,
        )
        for model in ("bm25", "tfidf")
    ),
    *(
        Family(f"converse-{model}", "dialogues", ("converse", "train", "--model", model, *SHORT), PLAIN)
        for model in ("dual", "generative", "seq2seq")
    ),
    _lm("ngram", uses=(("correct", "RUN", "input"), CORRECT_CHAINS), resumable=False),
    _lm("lstm", *SHORT[:2], uses=(*NEURAL_LM, DIAGNOSE)),
    _lm("gru", *SHORT[:2], uses=(*NEURAL_LM, DIAGNOSE)),
    _lm("rnn", *SHORT[:2], uses=(*NEURAL_LM, DIAGNOSE)),
    _lm("feed-forward", *SHORT[:2], uses=NEURAL_LM),
    _lm("convolution", *SHORT[:2], uses=NEURAL_LM),
    _lm("transformer", *SHORT[:2], uses=(*NEURAL_LM, DIAGNOSE)),
    *(
        Family(f"compose-{model}", "recipes", ("compose", "train", "--model", model, *SHORT), PLAIN)
        for model in ("checklist", "attention", "plain")
    ),
    Family(
        "lm-masked",
        "text",
        ("lm", "train", "--model", "transformer", "--objective", "masked", *SHORT),
        (),
    ),
    Family(
        "lm-mixture",
        "text",
        ("lm", "train", "--model", "mixture", "--runs", "OTHER", "--cache", "5", "--threads", "1"),
        (("score", "RUN", "input"), ("generate", "RUN", "--file", "input", "--max-length", "5")),
        others=("lm-ngram", "lm-lstm"),
        resumable=False,
    ),
    Family(
        "lm-fused",
        "text",
        ("lm", "train", "--model", "gru", *SHORT),
        (
            ("generate", "RUN", "the", "--fuse", "OTHER", "--max-length", "5"),
            ("generate", "OTHER", "the", "--fuse", "RUN", "--max-length", "5", "--search", "beam"),
        ),
        others=("lm-ngram",),
    ),
    Family(
        "lm-wavenet",
        "sounds",
        (
            *("lm", "train", "--speakers", "--d", "4", "--d-skip", "6", "--n-layers", "3", "--n-blocks", "1"),
            *("--sample-rate", "2000", "--local", "log_mel", "--strides", "20", "--n-mels", "5", *SHORT),
        ),
        (
            ("score", "RUN", "input"),
            ("predict", "RUN", "input", "--format", "jsonl"),
            ("evaluate", "RUN", "test"),
            ("evaluate", "RUN", "test", "--ensemble", "RUN"),
            ("generate", "RUN", "-o", "out.wav", "--condition", "input/low/1.wav", "--speaker", "low"),
        ),
    ),
    Family(
        "converse-mixture",
        "dialogues",
        ("converse", "train", "--model", "mixture", "--model.runs", "OTHER", "--threads", "1"),
        PLAIN,
        others=("converse-dual", "converse-bm25"),
        resumable=False,
    ),
    Family(
        "translate-ensemble",
        "pairs",
        ("translate", "train", "--model", "recurrent", "--tokenizer", "words", *SHORT),
        (("predict", "RUN", "input", "--ensemble", "OTHER"),),
        others=("translate-transformer",),
    ),
    *(
        Family(
            f"caption-{model}",
            "scenes",
            ("caption", "train", "--model", model, "--d", "16", "--height", "16", "--model.input.width", "16", *SHORT),
            (*PLAIN, ("draw", "RUN", "--file", "input", "--include", "red")),
        )
        for model in ("soft", "hard")
    ),
    Family(
        "point",
        "numbers",
        ("point", "--data.problem", "sort", "--data.size", "4", "--data.n_train", "64", *SHORT),
        PLAIN,
    ),
    *(
        Family(
            f"play-{network}",
            "labels",
            ("play", "tests.agents.tiny:Recall", "--network", network, "--warmup", "50", *PLAYED, *SHORT),
            (("evaluate", "RUN"),),
        )
        for network in ("dense", "recurrent")
    ),
    *(
        Family(
            f"embed-{model}",
            "text",
            ("embed", "train", "--model", model, "--threads", "1", "--min-count", "1"),
            (("vectors", "neighbors", "cat", "--vectors", "RUN"),),
            resumable=False,
        )
        for model in ("skipgram", "cbow")
    ),
    *(
        Family(
            f"embed-{model}",
            "text",
            ("embed", "train", "--model", model, "--counts", counts, "--d", "3", "--min-count", "1", "--threads", "1"),
            (("vectors", "similarity", "cat", "sees", "--vectors", "RUN"), *more),
            resumable=False,
        )
        for model, counts, more in (
            ("lsa", "contexts", ()),
            ("pca", "contexts", ()),
            ("factor", "contexts", ()),
            ("ica", "contexts", ()),
            ("sparse", "documents", (DOCUMENTS,)),
            ("nmf", "documents", (DOCUMENTS,)),
        )
    ),
)
