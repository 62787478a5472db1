"""Law of all tasks: ``model.network`` is the network that predicts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from catena.tasks.base import BaseTask
from catena.tasks.options import PredictOptions


def the_network_answers(
    model: BaseTask[Any, Any, Any, Any], items: Sequence[Any], options: PredictOptions | None = None
) -> None:
    """The law. The model is left as it was. By default scores are predicted, if it has the option."""
    network, known = model.network, model.options_class.model_fields
    if options is None:
        options = model.options_class.model_validate({"scores": True} if "scores" in known else {})
    assert isinstance(network, nn.Module)
    assert not network.training
    before = repr(model.predict(items, options))
    weights = {name: x.clone() for name, x in network.state_dict().items()}
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(0.5)
    assert repr(model.predict(items, options)) != before
    network.load_state_dict(weights)
    assert repr(model.predict(items, options)) == before
