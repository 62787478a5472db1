"""The language model of recordings as an estimator."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from catena.config import parse
from catena.errors import ConfigError
from catena.search.config import BaseSearchConfig, SampleConfig
from catena.tasks.estimator import Estimator
from catena.tasks.lm.config import LmConfig

if TYPE_CHECKING:
    from catena.tasks.lm.sound.data import RecordingExample
    from catena.tasks.lm.sound.generate import GeneratedRecording
    from catena.tasks.lm.sound.task import SoundLmTask


class SoundModel(Estimator, task="lm"):
    """Language model of recordings: ``predict`` scores them, ``generate`` makes new ones.

    model = SoundModel(max_epochs=5, speakers=True).fit(Path("voices"))
    [p.bits_per_sample for p in model.predict(["clip.wav"])]
    model.generate(seconds=2, speaker="anna")[0].save("out.wav")

    Inputs are paths of sound files, arrays of samples at ``sample_rate``, :class:`catena.data.audio.Audio`, or the path
    of a folder or a table. The outputs of ``fit`` and ``evaluate`` are the speakers.
    """

    model: Any

    def _prepare(self, x: Any) -> Any:
        if self.model not in (None, "wavenet"):
            raise ConfigError(f"model must be 'wavenet', got {self.model!r}. Use LanguageModel for texts.")
        return _as_path(x)

    def config_values(self) -> dict[str, Any]:
        before, self.model = self.model, "wavenet"
        try:
            return super().config_values()
        finally:
            self.model = before

    def evaluate(self, x: Any, y: Any = None) -> Any:
        return super().evaluate(_as_path(x), y)

    def _examples(self, x: Any, y: Any) -> list[RecordingExample]:
        from catena.tasks.lm.sound.data import get_model
        from catena.tasks.lm.sound.task import to_examples

        task: Any = getattr(self, "task_", None)
        config = task.config if task is not None else parse(LmConfig, self.config_values(), source="SoundModel")
        return to_examples(get_model(config), list(x), None if y is None else [str(name) for name in y])

    def generate(
        self,
        prompts: Sequence[str | os.PathLike[str] | None] = (None,),
        search: BaseSearchConfig | None = None,
        *,
        seconds: float | None = None,
        temperature: float = 1.0,
        speaker: str | None = None,
        condition: str | os.PathLike[str] | None = None,
        seed: int = 0,
    ) -> list[GeneratedRecording]:
        """Recordings that continue prompts, in their order.

        Args:
            prompts: recordings to continue; None is silence.
            search: a config of :mod:`catena.search`, whose ``max_length`` is the number of samples; sampling if None.
            seconds: the length without ``search``; of the condition, or two seconds, if None.
            temperature: below 1 lowers noise, without ``search``.
            speaker: the speaker, if the model knows them.
            condition: a recording, or the .npy file of a series, for a model with a local condition.
            seed: the random seed for sampling.
        """
        from catena.tasks.lm.sound.generate import SoundGenerator, count_samples

        task = cast("SoundLmTask", self._fitted())
        local = None if condition is None else Path(condition)
        if search is None:
            search = SampleConfig(max_length=count_samples(task, local, seconds), temperature=temperature)
        generator = SoundGenerator(task, search, speaker=speaker, condition=local)
        found = generator.write([None if prompt is None else Path(prompt) for prompt in prompts], seed)
        return [one for row in found for one in row]


def _as_path(x: Any) -> Any:
    """The name of a folder as a path."""
    return Path(x) if isinstance(x, str) and Path(x).is_dir() else x
