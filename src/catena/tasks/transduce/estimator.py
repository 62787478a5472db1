"""The string transducer as an estimator."""

from __future__ import annotations

from typing import Any

from catena.data.examples import ParallelText
from catena.tasks.estimator import Estimator
from catena.tasks.pairs import paired_texts


class Transducer(Estimator, task="transduce"):
    """String transducer: words in, pronunciations, spellings or inflected forms out.

    transducer = Transducer("joint", order=3, target_tokens="symbols").fit(["shat", "tash"] * 5, ["S A T", "T A S"] * 5)
    [p.target for p in transducer.predict(["sha"], n_best=2)]

    ``y`` has the target of each source. A source with several targets occurs several times.
    """

    def _examples(self, x: Any, y: Any) -> list[ParallelText]:
        return paired_texts(x, y)

    def score(self, x: Any, y: Any = None) -> float:
        """The fraction of sources whose prediction is one of their targets."""
        return 1 - self.evaluate(x, y).scores()["word_error"]
