"""Law of all tasks: ``model.network`` is the network that predicts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from catena.tasks.application import PredictOptions, Predictor


def the_network_answers(model: Predictor, items: Sequence[Any]) -> None:
    """The law. The model is left as it was."""
    network, options = model.network, PredictOptions(scores="scores" in model.supported_options)
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
