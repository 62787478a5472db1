"""The language model as an estimator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from catena.data.examples import SourceLocation, Text
from catena.errors import DataError
from catena.randomness import Randomness
from catena.search.config import BaseSearchConfig, SampleConfig
from catena.tasks.estimator import Estimator
from catena.tasks.targets import as_texts

if TYPE_CHECKING:
    from catena.search.text_constraints import TextConstraints
    from catena.tasks.lm.generate import Continuation


class LanguageModel(Estimator, task="lm"):
    """Language model: ``predict`` scores texts, ``generate`` continues prompts.

    model = LanguageModel("ngram", model_order=3, tokenizer="characters").fit(["anna", "hannah", "nan"] * 10)
    [p.log_prob for p in model.predict(["ann"])]
    model.generate(["ha"])
    """

    def _examples(self, x: Any, y: Any) -> list[Text]:
        return [Text(text, SourceLocation("fit", i)) for i, text in enumerate(as_texts(x), start=1)]

    def generate(
        self,
        prompts: Sequence[str] = ("",),
        search: BaseSearchConfig | None = None,
        *,
        constraints: TextConstraints | None = None,
        seed: int = 0,
    ) -> list[list[Continuation]]:
        """Continuations of prompts.

        Args:
            prompts: the texts to continue; an empty one is the start of a text.
            search: a config of :mod:`catena.search`, such as ``BeamConfig(beam_size=5)``; sampling if None.
            constraints: what every continuation must include, exclude or match.
            seed: the random seed for sampling.

        Returns:
            For each prompt the continuations, best first, or in sampling order.
        """
        from catena.tasks.lm.generate import TextGenerator

        self._fitted()
        if isinstance(prompts, str):
            raise DataError(f"prompts must be a list, got one text: {prompts!r:.60}. Put it in a list: [prompt].")
        task: Any = self.task_
        generator = TextGenerator(task, search or SampleConfig(), constraints)
        return generator.write(prompts, Randomness(seed).torch("generate"))
