r"""When there is no answer: logistic regression over words and scores of readers, for SQuAD 2.0 of squad_small.

    python benchmarks/train_reading.py DATA --out OUT --models v2_held --seeds 1 2 3 --no-answer pooled --match \
        --answerable 4
    python benchmarks/fit_no_answer.py DATA OUT [--groups lmf lhmfL]

DATA is the folder squad_small. The scores of a reader separate questions with and without an answer badly. Words help:
whether the words of the question are in the paragraph and in one sentence of it, weighted by their rareness. A first
regression and boosted trees over these words are fitted to the questions that the readers were trained on. A second
regression reads their scores, the scores of the reader, and how much of the question is in the sentence of its answer.
It and its threshold are fitted to the questions of held-out articles and of dev, which no reader was trained on.
--groups are its features: l and h, the first regression and the trees; m, no answer minus span; s, both scores; f, the
sentence of the answer; L, all words. The group with the best F1 of seven folds by article is scored on test. Needs
scikit-learn.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from catena.data.readers.questions import QuestionExample, read_questions
from catena.metrics.reading import answer_f1_measure, answer_report
from catena.tasks.read.spans import fit_no_answer_threshold

_STOP = (
    "a an the of in on at to for by with from and or is are was were be been did do does what which who whom whose "
    "when where why how that this it its as has have had not n't 's s ? , . ' many much type kind name called"
)
_NEGATIVE = (
    "not never no none without n't neither nor cannot unable fail failed isn aren wasn weren didn doesn don won can't "
    "least un non false opposite other than except only instead no longer anymore rarely"
)
STOP, NEGATIVE = (frozenset(words.split()) for words in (_STOP, _NEGATIVE))
ASKED = ("who", "what", "when", "where", "why", "how", "which", "many", "much", "year", "whose")
N_WORDS = 31
"""Features of words that the second regression may read; the first ones also read the kind of question."""


def tokens(text: str) -> list[str]:
    return re.findall(r"\w+|[^\w\s]", text)


def stem(word: str) -> str:
    return word[:5] if len(word) > 6 else word[:4] if len(word) > 4 else word


@cache
def sentences(text: str) -> list[str]:
    return re.split(r"(?<=[.!?])\s+", text)


class Words:
    """Features of a question and its paragraph: which words are where."""

    def __init__(self, folder: Path, examples: Sequence[QuestionExample]) -> None:
        texts = {e.context for e in examples}
        self.counts = Counter(word for text in texts for word in {w.lower() for w in tokens(text)})
        self.n = len(texts)
        self.vectors: dict[str, np.ndarray] = {}
        with (folder / "glove.100d.txt").open(encoding="utf-8") as file:
            for line in file:
                word, *values = line.rstrip().split(" ")
                vector = np.array(values, float)
                self.vectors[word] = vector / (np.linalg.norm(vector) + 1e-9)
        self.paragraph = cache(self._paragraph)

    def rareness(self, word: str) -> float:
        return math.log((self.n + 1) / (self.counts[word] + 0.5))

    def total(self, words: Sequence[str]) -> float:
        return sum(self.rareness(word) for word in words)

    def nearest(self, words: Sequence[str], rows: np.ndarray, lowest: float) -> list[float]:
        """The largest cosine of each word with the words of a text."""
        return [max(lowest, float((rows @ self.vectors[w]).max())) if w in self.vectors else 0 for w in words]

    def _paragraph(self, text: str) -> tuple[Any, ...]:
        parts = [[w.lower() for w in tokens(s)] for s in sentences(text)]
        every = [w for part in parts for w in part]
        rows = np.array([self.vectors[w] for w in set(every) if w in self.vectors])
        kept = [[self.vectors[w] for w in part if w in self.vectors and w not in STOP] for part in parts]
        own = [np.array(vectors or [[0] * 100]) for vectors in kept]
        stems = [{stem(w) for w in part} for part in parts]
        return set(every), set().union(*stems), [set(part) for part in parts], stems, rows, own

    def features(self, example: QuestionExample) -> list[float]:
        """Numbers and rareness of words that are not in the paragraph, or not in its best sentence."""
        every, stems, parts, part_stems, rows, own = self.paragraph(example.context)
        question = tokens(example.question)
        lower = [w.lower() for w in question]
        content = [w for w in lower if w not in STOP and re.match(r"\w", w)]
        whole = self.total(content)
        missing = [w for w in content if stem(w) not in stems]
        covered = [self.total([w for w in content if stem(w) in s]) for s in part_stems]
        best = covered.index(max(covered))
        left = [w for w in content if stem(w) not in part_stems[best]]
        top = sorted(covered, reverse=True)
        near, near_best = self.nearest(missing, rows, 0.0), self.nearest(left, own[best], -math.inf)
        capital = [w for w in question[1:] if w[:1].isupper()]
        number = [w for w in question if re.search(r"\d", w)]
        text = " ".join(w.lower() for w in tokens(example.context))
        pairs = [" ".join(pair) in text for pair in itertools.pairwise(lower)]
        groups = [
            [len(lower), len(content), len(missing), sum(w not in every for w in content), whole],
            [self.total(missing), max(map(self.rareness, missing), default=0), self.total(missing) / (whole + 1e-9)],
            [len(left), self.total(left), self.total(left) / (whole + 1e-9), max(map(self.rareness, left), default=0)],
            [top[0], top[1] if len(top) > 1 else 0, min(near, default=1), np.mean(near) if near else 1],
            [min(near_best, default=1), np.mean(near_best) if near_best else 1],
            [len(w) for w in (capital, [w for w in capital if w.lower() not in every])],
            [sum(w.lower() not in parts[best] for w in capital), len(number)],
            [sum(w.lower() not in every for w in number), sum(w.lower() not in parts[best] for w in number)],
            [sum(w in NEGATIVE for w in lower), "n't" in example.question, np.mean(pairs) if pairs else 0, len(every)],
            [len(parts), not example.question.strip().endswith("?"), question[0].lower() in ASKED[:7]],
            [word in lower for word in ASKED],
        ]
        return [float(x) for group in groups for x in group]

    def answer_features(self, example: QuestionExample, answer: str) -> list[float]:
        """How much of the question is not in the sentence of an answer, nor in the sentences around it."""
        content = [w for w in map(str.lower, tokens(example.question)) if w not in STOP and re.match(r"\w", w)]
        parts = sentences(example.context)

        def cover(i: int, width: int = 0) -> float:
            own = {stem(w.lower()) for s in parts[max(0, i - width) : i + width + 1] for w in tokens(s)}
            return self.total([w for w in content if stem(w) in own]) / (self.total(content) + 1e-9)

        possible = [i for i, s in enumerate(parts) if answer and answer in s] or list(range(len(parts)))
        at = max(possible, key=cover)
        return [1 - cover(at), 1 - cover(at, 1), max(map(cover, range(len(parts)))) - cover(at), len(tokens(answer))]


class Fit:
    """The first regression and trees, and the second regression for each reader."""

    def __init__(self, words: Words, examples: dict[str, QuestionExample], trained: Sequence[QuestionExample]) -> None:
        self.words, self.examples = words, examples
        self.word_row = cache(lambda name: words.features(examples[name]))
        x, y = np.array([words.features(e) for e in trained]), [not e.references for e in trained]
        self.linear = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=500)).fit(x, y)
        self.trees = HistGradientBoostingClassifier(
            max_iter=100, learning_rate=0.05, max_leaf_nodes=8, l2_regularization=5, min_samples_leaf=50, random_state=0
        ).fit(x, y)

    def groups(self, rows: Sequence[dict[str, Any]]) -> dict[str, np.ndarray]:
        x = np.array([self.word_row(row["id"]) for row in rows])
        scores = np.array([[row["span"], row["no_answer"]] for row in rows])
        answers = [self.words.answer_features(self.examples[row["id"]], row["text"]) for row in rows]
        groups = {"l": self.linear.decision_function(x)[:, None], "h": self.trees.decision_function(x)[:, None]}
        groups |= {"m": scores[:, 1:] - scores[:, :1], "s": scores, "f": np.array(answers), "L": x[:, :N_WORDS]}
        return groups

    def run(self, rows: Sequence[dict[str, Any]], names: str, score_test: bool) -> list[float]:
        """AUC and F1 by folds of articles; then F1 on test, of questions with an answer, and no answer found."""
        own = [row for row in rows if row["part"] != "test"]
        examples = [self.examples[row["id"]] for row in own]
        groups, none = self.groups(own), np.array([not e.references for e in examples])
        x, titles = np.hstack([groups[name] for name in names]), np.array([e.title for e in examples])
        scores = np.zeros(len(x))
        for title in set(titles.tolist()):
            out = titles == title
            scores[out] = fit(x[~out], none[~out]).decision_function(x[out])
        measure = answer_f1_measure("2.0").statistics([e.references for e in examples], [row["text"] for row in own])
        chosen = fit_no_answer_threshold(scores, measure[:, 0], none.astype(float))
        found = [float(roc_auc_score(none, scores)), 100 * chosen.score]
        if score_test:
            test = [row for row in rows if row["part"] == "test"]
            groups = self.groups(test)
            margins = fit(x, none).decision_function(np.hstack([groups[name] for name in names]))
            texts = ["" if m > chosen.threshold else row["text"] for m, row in zip(margins, test, strict=True)]
            report = answer_report([self.examples[row["id"]].references for row in test], texts, "2.0")
            found += [100 * x for x in (report.f1, report.answerable_f1, report.unanswerable_accuracy)]
        return found


def fit(x: np.ndarray, y: np.ndarray) -> Any:
    return make_pipeline(StandardScaler(), LogisticRegression(C=0.05, max_iter=1000)).fit(x, y)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("runs", type=Path, help="folder of the runs of train_reading.py")
    parser.add_argument("--groups", nargs="+", default=["l", "lf", "lmf", "lhmsf", "lhmfL", "msfL"])
    options = parser.parse_args()
    second = read_questions(options.data / "dev-v2.0.json")
    readers = [json.loads(path.read_text("utf-8")) for path in sorted(options.runs.glob("v2_held-*/spans.json"))]
    scored = {row["id"] for row in readers[0]}
    titles = {e.title for e in second if e.id in scored}
    words = Words(options.data, [*second, *read_questions(options.data / "train.json")])
    whole = Fit(words, {e.id: e for e in second}, [e for e in second if e.title not in titles])
    found = {names: np.mean([whole.run(rows, names, False) for rows in readers], axis=0) for names in options.groups}
    for names, (area, f1) in found.items():
        print(f"{names:8} AUC {area:.3f}, F1 {f1:.2f} by folds of articles")
    best = max(found, key=lambda names: found[names][1])
    results = np.array([whole.run(rows, best, True) for rows in readers])
    for row in (*results, results.mean(0)):
        print(f"{best} on test: F1 {row[2]:.2f}, with an answer {row[3]:.1f}, no answer found {row[4]:.1f}")


if __name__ == "__main__":
    main()
