"""Chains and segmentations with Catena and other libraries; ``structure.py`` describes the measurements.

python benchmarks/structure.py chain [--only semimarkov] [--threads 1 2] [--rounds 9]
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from structure import GROWTH, Case, Run, case, in_reference, installed, with_gradient

# --- chains -------------------------------------------------------------------------------------------------


def chain_inputs(b: int, t: int, k: int) -> list[Tensor]:
    torch.manual_seed(0)
    return [torch.randn(s, requires_grad=True) for s in ((b, t, k), (k, k), (k,), (k,))]


def crf_like(transitions: Tensor, start: Tensor, end: Tensor) -> object:
    """Return a pytorch-crf layer with these scores."""
    from torchcrf import CRF

    layer = CRF(len(start), batch_first=True)
    layer.transitions.data, layer.start_transitions.data = transitions.data, start.data
    layer.end_transitions.data = end.data
    return layer


def dense_chain(emissions: Tensor, transitions: Tensor, start: Tensor, end: Tensor) -> Tensor:
    """Return the scores of every step in torch-struct's layout, ``[b, t - 1, to, from]``."""
    scores = transitions.T + emissions[:, 1:, :, None]
    first = scores[:, :1] + (emissions[:, 0] + start)[:, None, None, :]
    scores = torch.cat((first, scores[:, 1:]), dim=1)
    last = scores[:, -1:] + end[:, None]
    return torch.cat((scores[:, :-1], last), dim=1)


def chain_runs(b: int, t: int, k: int) -> dict[str, Run]:
    from catena.structure.chain import LinearChain

    inputs = chain_inputs(b, t, k)
    emissions, transitions, start, end = inputs

    def log_z() -> Tensor:
        return LinearChain(*inputs).log_partition()

    runs = {
        "catena": with_gradient(log_z, *inputs),
        "catena reference": with_gradient(in_reference(log_z), *inputs),
    }
    if installed("torchcrf"):
        layer, mask = crf_like(transitions, start, end), torch.ones(b, t, dtype=torch.bool)
        emissions_t = emissions.transpose(0, 1)
        runs["pytorch-crf"] = with_gradient(
            lambda: layer._compute_normalizer(emissions_t, mask.T), emissions, *layer.parameters()
        )
    if installed("torch_struct"):
        from torch_struct import LinearChainCRF

        runs["torch-struct"] = with_gradient(lambda: LinearChainCRF(dense_chain(*inputs)).partition, *inputs)
    return runs


@case
def chain_sum() -> Case:
    """log Z and its gradient, B32 T64 K32."""
    wanted = {"pytorch-crf": 15, "torch-struct": 800}
    return Case("log Z and gradient of a chain, B32 T64 K32", chain_runs(32, 64, 32), wanted)


@case
def chain_sum_small() -> Case:
    """log Z and its gradient, B1 T64 K32."""
    return Case("log Z and gradient of a chain, B1 T64 K32", chain_runs(1, 64, 32), {"pytorch-crf": 20})


@case
def chain_sum_large() -> Case:
    """log Z and its gradient, B256 T64 K32."""
    runs = chain_runs(256, 64, 32)
    runs.pop("torch-struct", None)  # 256 MiB of pair scores
    return Case("log Z and gradient of a chain, B256 T64 K32", runs)


@case
def chain_loss() -> Case:
    """The training loss of a tagger and its gradient, B32 T64 K32."""
    from catena.structure.chain import LinearChain

    inputs = chain_inputs(32, 64, 32)
    emissions, transitions, start, end = inputs
    tags = torch.randint(0, 32, (32, 64))
    runs = {"catena": with_gradient(lambda: -LinearChain(*inputs).log_prob(tags), *inputs)}
    if installed("torchcrf"):
        layer, mask = crf_like(transitions, start, end), torch.ones(32, 64, dtype=torch.bool)
        runs["pytorch-crf"] = with_gradient(
            lambda: -layer(emissions, tags, mask, reduction="none"), emissions, *layer.parameters()
        )
    return Case("negative log-likelihood and gradient of a chain, B32 T64 K32", runs, {"pytorch-crf": 15})


@case
def chain_best() -> Case:
    """The best tags, B32 T64 K32."""
    from catena.structure.chain import LinearChain

    inputs = [x.detach() for x in chain_inputs(32, 64, 32)]
    emissions, transitions, start, end = inputs
    runs: dict[str, Run] = {"catena": lambda: LinearChain(*inputs).argmax()}
    if installed("torchcrf"):
        layer, mask = crf_like(transitions, start, end), torch.ones(32, 64, dtype=torch.bool)
        runs["pytorch-crf"] = lambda: torch.tensor(layer.decode(emissions, mask))
    if installed("torch_struct"):
        from torch_struct import LinearChainCRF

        def best() -> Tensor:
            return LinearChainCRF.struct.from_parts(LinearChainCRF(dense_chain(*inputs)).argmax)[0]

        runs["torch-struct"] = best
    return Case("best tags of a chain, B32 T64 K32", runs, {"pytorch-crf": 10}, agree=0)


def chain_growth(over: str) -> Callable[[int], Run]:
    def at(n: int) -> Run:
        from catena.structure.chain import LinearChain

        inputs = chain_inputs(8, n, 32) if over == "t" else chain_inputs(2, 64, n)
        return with_gradient(lambda: LinearChain(*inputs).log_partition(), *inputs)

    return at


GROWTH["chain, over t (says t¹)"] = (chain_growth("t"), [512, 1024, 2048, 4096, 8192], "t", lambda t: t)
GROWTH["chain, over k (says k²)"] = (chain_growth("k"), [128, 256, 512, 1024], "k", lambda k: k**2)


# --- segmentations ----------------------------------------------------------------------------------------------------


def segment_inputs(b: int, t: int, m: int, k: int) -> list[Tensor]:
    torch.manual_seed(0)
    return [torch.randn(s, requires_grad=True) for s in ((b, t, m, k), (k, k))]


@case
def semimarkov_sum() -> Case:
    """log Z and its gradient, B4 T64 M8 K8."""
    from catena.structure.semimarkov import SemiMarkov

    inputs = segment_inputs(4, 64, 8, 8)

    def log_z() -> Tensor:
        return SemiMarkov(*inputs).log_partition()

    runs = {
        "catena": with_gradient(log_z, *inputs),
        "catena reference": with_gradient(in_reference(log_z), *inputs),
    }
    if installed("torch_struct"):
        from torch_struct import SemiMarkovCRF

        # Not fully comparable: it scores pairs of labels with a length at each position, without separate transitions.
        edges = torch.randn(4, 63, 8, 8, 8, requires_grad=True)
        runs["torch-struct"] = with_gradient(lambda: SemiMarkovCRF(edges).partition, edges)
    return Case("log Z and gradient of a segmentation, B4 T64 M8 K8", runs, agree=None)


def segment_growth(over: str) -> Callable[[int], Run]:
    def at(n: int) -> Run:
        from catena.structure.semimarkov import SemiMarkov

        inputs = segment_inputs(4, n, 16, 16) if over == "t" else segment_inputs(2, 2048, n, 4)
        return with_gradient(lambda: SemiMarkov(*inputs).log_partition(), *inputs)

    return at


GROWTH["semimarkov, over t (says t¹)"] = (segment_growth("t"), [64, 128, 256, 512], "t", lambda t: t)
GROWTH["semimarkov, over m (says m¹)"] = (segment_growth("m"), [32, 64, 128, 256], "m", lambda m: m + 4)


if __name__ == "__main__":
    import structure

    structure.main()
