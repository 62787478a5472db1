"""A Transformer of Catena as transformers' ``MarianMTModel`` with the same weights, for comparisons.

Marian's decoder has post-norm, sinusoidal positions and an output bias, like Catena's with ``norm = "post"``. Its
sinusoids have another order, so Catena's are copied into its position table.
"""

from __future__ import annotations

from typing import Any

import torch

from catena.seq2seq.config import TransformerSeq2SeqConfig
from catena.seq2seq.transformer import TransformerSeq2Seq

PAD = 0
LONGEST = 512


def marian_of(model: TransformerSeq2Seq, settings: TransformerSeq2SeqConfig) -> Any:
    """Return the Marian model with the weights of ours; both embeddings and the output must be tied."""
    from transformers import MarianConfig, MarianMTModel

    config = MarianConfig(
        vocab_size=model.v, d_model=settings.d, encoder_layers=settings.n_encoder_layers,
        decoder_layers=settings.n_decoder_layers, encoder_attention_heads=settings.n_heads,
        decoder_attention_heads=settings.n_heads, encoder_ffn_dim=settings.d_ff, decoder_ffn_dim=settings.d_ff,
        activation_function={"relu": "relu", "gelu": "gelu", "swish": "silu"}[settings.activation],
        max_position_embeddings=LONGEST, scale_embedding=True, share_encoder_decoder_embeddings=True, dropout=0.0,
        attention_dropout=0.0, activation_dropout=0.0, pad_token_id=PAD, eos_token_id=model.end,
        decoder_start_token_id=model.begin, bos_token_id=model.begin, forced_eos_token_id=None,
    )  # fmt: skip
    peer = MarianMTModel(config).eval()
    copy_weights(model, peer)
    return peer


@torch.no_grad()
def copy_weights(model: TransformerSeq2Seq, peer: Any) -> None:
    """Copy the weights of our model into the Marian model."""
    body, waves = peer.model, model.decoder.positions
    body.shared.weight.copy_(model.target_embedding.weight)
    peer.lm_head.weight.copy_(model.output.scores.weight)
    bias = model.output.scores.effective_bias
    peer.final_logits_bias.copy_(bias[None] if bias is not None else torch.zeros(1, model.v))
    for ours, theirs in ((model.encoder, body.encoder), (model.decoder, body.decoder)):
        theirs.embed_positions.weight.copy_(waves(torch.zeros(1, LONGEST, model.encoder.d_in))[0])
        for layer, other in zip(ours.layers, theirs.layers, strict=True):
            _copy_layer(layer, other)


def _copy_layer(layer: Any, other: Any) -> None:
    pairs = [(other.fc1, layer.feed[0]), (other.fc2, layer.feed[3]), (other.final_layer_norm, layer.feed_norm)]
    pairs += [(other.self_attn_layer_norm, layer.attention_norm), *_attention(other.self_attn, layer.attention)]
    if hasattr(layer, "cross"):
        pairs += [(other.encoder_attn_layer_norm, layer.cross_norm), *_attention(other.encoder_attn, layer.cross)]
    for theirs, ours in pairs:
        theirs.weight.copy_(ours.weight)
        theirs.bias.copy_(ours.bias)


def _attention(other: Any, ours: Any) -> list[tuple[Any, Any]]:
    theirs = (other.q_proj, other.k_proj, other.v_proj, other.out_proj)
    return list(zip(theirs, (ours.query, ours.keys, ours.values, ours.output), strict=True))
