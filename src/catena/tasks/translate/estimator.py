"""The translator as an estimator."""

from __future__ import annotations

from typing import Any

from catena.tasks.estimator import Estimator
from catena.tasks.pairs import paired_texts
from catena.tasks.translate.data import TranslationExample, to_example


class Translator(Estimator, task="translate"):
    """Translator: texts in, texts in another language or style out.

    english, german = ["the dog", "the cat"] * 50, ["der Hund", "die Katze"] * 50
    translator = Translator("recurrent", tokenizer="words").fit(english, german)
    [p.translation for p in translator.predict(["the cat"], beam_size=5)]

    ``y`` has the target text of each source.
    """

    def _examples(self, x: Any, y: Any) -> list[TranslationExample]:
        return list(map(to_example, paired_texts(x, y)))
