"""The encoder of a trained language model as the start of another model: pretrain, then fine-tune.

The task builds its model around an encoder with the same config, reads text with the language model's tokenizer and
vocabulary, and copies the weights of embedding and encoder. Fine-tuning can unfreeze the layers one by one from the top
(Howard & Ruder 2018, section 3.3), so that the pretrained weights are not overwritten all at the same time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from catena import config as configs
from catena.checkpoint import CONFIG, open_checkpoint
from catena.config import read_toml
from catena.data.readers.vectors import read_word_vectors
from catena.data.vocabulary import Vocabulary
from catena.embeddings.config import EmbeddingConfig
from catena.errors import ConfigError

if TYPE_CHECKING:
    from catena.tasks.lm.config import LmConfig
    from catena.tasks.lm.data import LmEncoding


@dataclass(frozen=True, eq=False)
class Pretrained:
    """A trained language model that initializes other models."""

    folder: Path
    config: LmConfig
    encoding: LmEncoding
    weights: dict[str, Tensor]

    @torch.no_grad()
    def put_into(self, embedding: nn.Module, encoder: nn.Module) -> None:
        """Copy the weights into an embedding and an encoder of the same config."""
        for name, module in (("embedding", embedding), ("encoder", encoder)):
            prefix = f"{name}."
            own = {key.removeprefix(prefix): w for key, w in self.weights.items() if key.startswith(prefix)}
            if {key: w.shape for key, w in own.items()} != {k: w.shape for k, w in module.state_dict().items()}:
                raise ConfigError(
                    f"the {name} must have the shapes of the one in {self.folder}, got others. Remove the options of "
                    f"embedding and encoder, so that they are taken from there."
                )
            module.load_state_dict(own)


def open_pretrained(folder: str | Path) -> Pretrained:
    """Read the language model of a run or checkpoint folder."""
    from catena.tasks.lm.config import LmConfig
    from catena.tasks.lm.data import load_encoding

    checkpoint = open_checkpoint(Path(folder))
    path = checkpoint.folder / CONFIG
    task = read_toml(path)[0].get("task")
    if task != "lm":
        raise ConfigError(
            f"pretrained = {str(folder)!r} must be a run of task 'lm', got one of task {task!r}. Train a language "
            f"model with 'catena train lm FILE'."
        )
    config = configs.load(LmConfig, path)
    if not config.is_neural:
        raise ConfigError(
            f"pretrained = {str(folder)!r} is a model of kind {config.model.kind!r}, which has no encoder. Use a "
            f"network, such as one trained with 'catena train lm FILE --model lstm'."
        )
    return Pretrained(checkpoint.folder, config, load_encoding(checkpoint.folder, "line"), checkpoint.weights())


def layers_from_the_top(encoder: nn.Module) -> list[list[nn.Parameter]]:
    """The parameters of an encoder by layer, the top layer first; those below all layers come last."""
    stacks = [module for module in encoder.children() if isinstance(module, nn.ModuleList) and len(module)]
    depth = max((len(stack) for stack in stacks), default=0)
    groups = [[p for stack in stacks if i < len(stack) for p in stack[i].parameters()] for i in reversed(range(depth))]
    if groups and isinstance(getattr(encoder, "leave", None), nn.Module):
        groups[0] += list(encoder.leave.parameters())  # type: ignore[union-attr]
    known = {id(p) for group in groups for p in group}
    below = [p for p in encoder.parameters() if id(p) not in known]
    return [*groups, below] if below else groups


def unfreeze_top_layers(groups: Sequence[Sequence[nn.Parameter]], epoch: int, every: int) -> None:
    """Unfreeze the first groups: one more group every ``every`` epochs; all if ``every`` is 0."""
    free = len(groups) if not every else (epoch - 1) // every
    for i, group in enumerate(groups):
        for parameter in group:
            parameter.requires_grad_(i < free)


# --- word vectors of files --------------------------------------------------------------------------------------------


WordVectorRows = tuple[Tensor, Tensor]
"""A row for each id, and a mask of the ids that are in the file."""


def initial_vectors(
    embedding: EmbeddingConfig, vocabulary: Vocabulary, report: list[str] | None
) -> WordVectorRows | None:
    """The vectors of the file that a config names, or None if all vectors are random.

    Args:
        embedding: the config.
        vocabulary: the words.
        report: gets a line with the number of words found. If None, the file is not read and all vectors are 0, for a
            network whose weights are loaded afterwards.
    """
    if embedding.mode == "random":
        return None
    if report is None:
        return torch.zeros(len(vocabulary), embedding.d), torch.zeros(len(vocabulary), dtype=torch.bool)
    rows, found = read_word_vectors(Path(str(embedding.vectors)), vocabulary.symbols, embedding.d)
    matrix, known = torch.from_numpy(rows), torch.from_numpy(found)
    percent = 100 * float(known.float().mean())
    report.append(f"{embedding.vectors}: vectors for {int(known.sum()):,} words, {percent:.1f} % of the vocabulary")
    return matrix, known
