r"""The masked language model: predicts masked words from the words around them.

.. math::  -\frac{1}{|M|} \sum_{i \in M} \log p(w_i \mid \tilde w_1, \dots, \tilde w_t)

Devlin et al. 2019, section 3.1: of the positions sampled into M, 80 % are a mask token, 10 % another word, 10 %
unchanged. The encoder may be bidirectional. It has no p(next | prefix), so it is not a stepper; use its weights to
initialize other models.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from catena.data.special_tokens import MASK_SYMBOL
from catena.data.vocabulary import Vocabulary
from catena.embeddings.table import Embedding
from catena.encoders.base import Encoder
from catena.encoders.layers import Dropout
from catena.lm.neural import DropoutRates
from catena.outputs.base import OutputLayer
from catena.shapes import mask_from_lengths

SHOWN_AS_MARK, SHOWN_AS_ANOTHER = 0.8, 0.1


class MaskedLanguageModel(nn.Module):
    """p(word | the words around it).

    Args:
        embedding: the vectors of words.
        encoder: reads the sequence in both directions.
        output: predicts a word from its vector.
        vocabulary: the words, with the special token ``<mask>``.
        drops: dropout of inputs and outputs; none if None.
    """

    def __init__(
        self,
        embedding: Embedding,
        encoder: Encoder,
        output: OutputLayer,
        vocabulary: Vocabulary,
        drops: DropoutRates | None = None,
    ) -> None:
        super().__init__()
        self.embedding, self.encoder, self.output = embedding, encoder, output
        same = encoder.d_out == output.d_in
        self.bridge = nn.Identity() if same else nn.Linear(encoder.d_out, output.d_in, bias=False)
        self.vocabulary = vocabulary
        self.mark = vocabulary.special(MASK_SYMBOL)
        drops = drops or DropoutRates()
        time = 1 if drops.locked else None
        self.drop_input, self.drop_output = Dropout(drops.input, time), Dropout(drops.output, time)

    def hidden(self, ids: Int[Tensor, "b t"], lengths: Int[Tensor, " b"]) -> Float[Tensor, "b t d"]:
        """The inputs of the output layer."""
        raw = self.encoder(self.drop_input(self.embedding(ids)), lengths)
        return self.bridge(self.drop_output(raw))

    def hide(
        self, ids: Int[Tensor, "b t"], lengths: Int[Tensor, " b"], share: float
    ) -> tuple[Int[Tensor, "b t"], Bool[Tensor, "b t"]]:
        """Sample positions to mask: the masked ids, and the positions. Each nonempty sequence has at least one."""
        real = mask_from_lengths(lengths, ids.shape[1])
        draw = torch.rand(ids.shape, device=ids.device).masked_fill(~real, 2.0)
        chosen = (draw < share) | (draw == draw.amin(1, keepdim=True)) & real
        how = torch.rand(ids.shape, device=ids.device)
        others = torch.randint(len(self.vocabulary.specials), self.output.v, ids.shape, device=ids.device)
        shown = torch.where(how < SHOWN_AS_MARK, self.mark, ids)
        shown = torch.where(how >= 1 - SHOWN_AS_ANOTHER, others, shown)
        return torch.where(chosen, shown, ids), chosen
