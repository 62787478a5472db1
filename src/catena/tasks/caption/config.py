"""The config of a model of captions. Imports no torch.

Tested in tests/tasks/caption/test_task.py and tests/tasks/caption/test_data.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from catena.config import Config
from catena.data.config import BatchConfig, TokenizerConfig, VocabularyConfig, WordTokenizerConfig
from catena.encoders.config import Probability
from catena.search.config import BeamConfig, SearchConfig
from catena.seq2seq.caption_config import CaptionModelConfig, FeatureEncoderConfig, SoftCaptionConfig
from catena.tasks.config import FilesConfig, MachineConfig, SplitConfig, TaskConfig
from catena.tasks.options import BeamOptions
from catena.training.config import TrainingConfig

if TYPE_CHECKING:
    from catena.search.text_constraints import TextConstraints

LIKELIHOODS = ("perplexity", "nats_per_token")
"""Metrics that need no generated captions; lower is better."""
CAPTION_METRICS = ("bleu_4", "bleu_3", "bleu_2", "bleu_1", "chrf")
"""Metrics of generated captions."""
WORD_LOSS = "word_loss"
"""The metric of a run that trains only the encoder; lower is better."""
NEXT_COMMANDS = ("predict RUN FOLDER", "evaluate RUN FILE", "draw RUN PICTURE -o FILE.svg")
"""Commands suggested after training."""
WORD_COMMANDS = ("train caption FILE --init-from RUN --objective captions",)
"""Commands suggested after training of words."""


class CaptionDataConfig(FilesConfig, SplitConfig):
    """Pictures and their captions."""

    PATHS: ClassVar[tuple[str, ...]] = ("train", "dev", "test", "images", "features")
    input_format: Literal["auto", "csv", "tsv", "json", "jsonl", "xlsx", "parquet", "flickr", "karpathy", "coco"] = (
        "auto"
    )
    """Format of the files: a table with a column of file names and a column of captions, the token file of Flickr8k
    (picture.jpg#0<TAB>caption), Karpathy's JSON, or COCO annotations; auto detects it. Several captions of a picture
    are its references."""
    images: str | None = None
    """Folder that the file names of pictures are relative to; the folder of the file of captions if not set."""
    features: str | None = None
    """Features of pictures by file name, instead of pixels: an .npz or .safetensors file, or a folder of .npy files."""
    file_column: str | None = None
    """Column of file names in tables. Detected by name (image, file, path and others) if not set."""
    caption_column: str | None = None
    """Column of captions in tables. Detected by name (caption, sentence, text and others) if not set."""
    split_column: str | None = None
    """Column of splits (train, dev, test) in tables. Detected by name (split and others) if not set. If a training file
    has splits, its pictures of dev and test are used as such, unless dev and test are set."""
    part: Literal["train", "dev", "test"] | None = None
    """Read only the pictures of this split, in files with splits."""
    max_length: int = Field(50, gt=0)
    """Longest caption in tokens in training. Longer ones are left out."""
    punctuation: bool = False
    """Keep the punctuation of captions."""
    cache: str | None = None
    """Folder for the decoded pixels of the training pictures, for the next run."""

    @property
    def columns(self) -> dict[str, str | None]:
        """The columns by their roles."""
        return {"file": self.file_column, "caption": self.caption_column, "split": self.split_column}


class CaptionBatchConfig(BatchConfig):
    """How captions are grouped into batches."""

    by_picture: bool = False
    """Put all captions of a picture into the same batch, where the encoder reads the picture once for all of them.
    batch_size counts pictures then."""


class CaptionEvaluationConfig(Config):
    """How the model is evaluated during training."""

    pictures: int = Field(500, ge=0)
    """Number of dev pictures that get a caption at each evaluation, evenly spaced. With 0 only perplexity is
    computed."""
    dev_beam_size: int = Field(1, ge=1)
    """Beam size for these captions. 1 is greedy search."""
    cut: Literal["words", "13a", "intl", "zh", "char", "none"] = "words"
    """Tokenization for BLEU: words in lower case without punctuation (words), as papers on captions have it, or one of
    sacrebleu."""


class CaptionOptions(BeamOptions):
    """Options of prediction with a model of captions."""

    include: tuple[str, ...] = ()
    """Phrases that every caption must contain."""
    exclude: tuple[str, ...] = ()
    """Phrases that no caption may contain."""
    regex: str | None = None
    """Regular expression that every caption must match."""
    constraint: Path | None = None
    """File of phrases that a caption must contain, or must not (-phrase), and of its beginning (^phrase), separated by
    tabs; one line for all pictures, or a line for each."""
    attention: bool = False
    """Add the attention weights of each word over the parts of the picture."""

    def constraints(self) -> TextConstraints:
        """The constraints on every caption."""
        from catena.search.text_constraints import TextConstraints

        return TextConstraints(self.include, self.exclude, self.regex)


_TRAINING: dict[str, Any] = {
    "optimizer": "adam", "learning_rate": 0.0005, "clip_norm": 5.0, "schedule": "plateau", "plateau_patience": 2,
    "patience": 6, "max_epochs": 40,
}  # fmt: skip


class CaptionConfig(TaskConfig):
    """Config of a model that describes pictures."""

    SUGGESTED: ClassVar[Mapping[str, Mapping[str, Any]]] = {"soft": _TRAINING, "hard": _TRAINING}

    task: Literal["caption"] = "caption"
    objective: Literal["captions", "words"] = "captions"
    """captions: train the whole model; words: train only the encoder, to predict which words are in the captions of a
    picture. A run of words is the start of a run of captions (--init-from RUN --objective captions)."""
    mixup: Probability = 0.0
    """With objective = words, probability of mixing a training picture and its words with those of another one, with a
    random weight (Zhang et al. 2018)."""
    machine: MachineConfig = MachineConfig()
    data: CaptionDataConfig = CaptionDataConfig()
    tokenizer: TokenizerConfig = WordTokenizerConfig(lowercase=True)
    vocabulary: VocabularyConfig = VocabularyConfig(min_count=2)
    model: CaptionModelConfig = SoftCaptionConfig()
    batches: CaptionBatchConfig = CaptionBatchConfig(batch_size=64)
    training: TrainingConfig = Field(default_factory=TrainingConfig)
    search: SearchConfig = BeamConfig(beam_size=5, normalize="gnmt", length_penalty=0.7, max_length=40)
    """The search for captions."""
    evaluation: CaptionEvaluationConfig = CaptionEvaluationConfig()

    @classmethod
    def implied(cls, data: Mapping[str, Any]) -> Mapping[str, Any]:
        """Use the features of a file if one is set and no other encoder is."""
        features = data.get("data", {}).get("features") if isinstance(data.get("data"), Mapping) else None
        model = data.get("model", {})
        if features in (None, "none") or not isinstance(model, Mapping) or "encoder" in model:
            return data
        return {**data, "model": {**model, "encoder": {"kind": "features"}}}

    def known_metrics(self) -> tuple[str, ...]:
        if self.objective == "words":
            return (WORD_LOSS,)
        return (*LIKELIHOODS, *(CAPTION_METRICS if self.evaluation.pictures else ()))

    def problems(self) -> Iterator[str]:
        if self.batches.by_picture and self.batches.batch_by != "examples":
            yield (
                f"batches.batch_by must be 'examples' if batches.by_picture = true, got {self.batches.batch_by!r}. "
                f"Remove one of the two."
            )
        yield from self._word_problems()
        reads_features = isinstance(self.model.encoder, FeatureEncoderConfig)
        if reads_features and self.data.features is None:
            yield "data.features must be a file if model.encoder.kind = 'features', got none. Pass --features FILE."
        if not reads_features and self.data.features is not None:
            yield (
                f"model.encoder.kind must be 'features' if data.features is set, got {self.model.encoder.kind!r}. "
                f"Remove one of the two."
            )

    def _word_problems(self) -> Iterator[str]:
        """What is wrong with options for words without captions."""
        model = self.model
        if self.objective == "captions":
            if self.mixup:
                yield f"mixup must be 0 if objective = 'captions', got {self.mixup}. Pass --mixup 0."
            return
        if not model.word_weight:
            yield "model.word_weight must be above 0 if objective = 'words', got 0.0. Set it to 1."
        if model.blind or model.frozen or isinstance(model.encoder, FeatureEncoderConfig):
            yield (
                f"objective must be 'captions' if there is no encoder to train, got {self.objective!r}. Remove it, or "
                f"model.blind, model.frozen and data.features."
            )
