"""The encoder of a trained language model, to start another model with: pretrain, then fine-tune.

A task that takes such a start builds its own model around an encoder of the same make, reads text with the language
model's tokenizer and vocabulary, and copies the weights of embedding and encoder. Fine-tuning may free the layers one
after another from the top (Howard & Ruder 2018, section 3.3), so that what was learned is not washed away at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from catena import config as configs
from catena.checkpoint import CONFIG, open_checkpoint
from catena.config import read_toml
from catena.errors import ConfigError
from catena.tasks.lm.config import LmConfig
from catena.tasks.lm.encoding import LmEncoding, load_encoding


@dataclass(frozen=True, eq=False)
class Pretrained:
    """A trained language model as a start for others."""

    folder: Path
    config: LmConfig
    encoding: LmEncoding
    weights: dict[str, Tensor]

    @torch.no_grad()
    def put_into(self, embedding: nn.Module, encoder: nn.Module) -> None:
        """Copy the weights into an embedding and an encoder of the same make."""
        for name, module in (("embedding", embedding), ("encoder", encoder)):
            prefix = f"{name}."
            own = {key.removeprefix(prefix): w for key, w in self.weights.items() if key.startswith(prefix)}
            if {key: w.shape for key, w in own.items()} != {k: w.shape for k, w in module.state_dict().items()}:
                raise ConfigError(
                    f"the {name} of {self.folder} is of another make than the model that it should start: leave the "
                    f"settings of embedding and encoder out, and they are taken from there"
                )
            module.load_state_dict(own)


def open_pretrained(folder: str | Path) -> Pretrained:
    """Read the language model of a run or checkpoint folder."""
    checkpoint = open_checkpoint(Path(folder))
    path = checkpoint.folder / CONFIG
    task = read_toml(path)[0].get("task")
    if task != "lm":
        raise ConfigError(f"pretrained = {str(folder)!r} must be a run of task 'lm', and is one of {task!r}")
    config = configs.load(LmConfig, path)
    if not config.is_neural:
        raise ConfigError(
            f"pretrained = {str(folder)!r} is a model of kind {config.model.kind!r}, which has no encoder: name a "
            f"network, such as one that 'catena train lm FILE --model lstm' trains"
        )
    return Pretrained(checkpoint.folder, config, load_encoding(checkpoint.folder, "line"), checkpoint.weights())


def layers_from_the_top(encoder: nn.Module) -> list[list[nn.Parameter]]:
    """The parameters of an encoder by layer, the topmost first; what stands below all layers comes last."""
    stacks = [module for module in encoder.children() if isinstance(module, nn.ModuleList) and len(module)]
    depth = max((len(stack) for stack in stacks), default=0)
    groups = [[p for stack in stacks if i < len(stack) for p in stack[i].parameters()] for i in reversed(range(depth))]
    if groups and isinstance(getattr(encoder, "leave", None), nn.Module):
        groups[0] += list(encoder.leave.parameters())  # type: ignore[union-attr]
    known = {id(p) for group in groups for p in group}
    below = [p for p in encoder.parameters() if id(p) not in known]
    return [*groups, below] if below else groups


def unfreeze_top_layers(groups: Sequence[Sequence[nn.Parameter]], epoch: int, every: int) -> None:
    """Let the first groups be trained: one more after every so many epochs; all where ``every`` is 0."""
    free = len(groups) if not every else (epoch - 1) // every
    for i, group in enumerate(groups):
        for parameter in group:
            parameter.requires_grad_(i < free)
