"""A classifier of trees: word vectors at the leaves, a tree encoder, an output layer on every node."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from catena.data.vocabulary import PAD
from catena.embeddings.table import Embedding, build_embedding
from catena.encoders.tree import TreeEncoder
from catena.encoders.tree_build import build_tree_encoder
from catena.encoders.tree_recursive import MatrixVectorNetwork
from catena.tasks.classify.config import ClassifyConfig
from catena.tasks.classify.tree_config import TreeClassifierConfig, TreeLSTMClassifierConfig
from catena.tasks.classify.trees.batch import WordTrees
from catena.tasks.word_vectors import WordVectorRows


class TreeClassifier(nn.Module):
    """Scores nodes of trees. ``temperature`` divides the scores in prediction only; it is fitted on dev, not trained.

    Args:
        embedding: word ids to vectors.
        encoder: vectors at leaves to vectors at all nodes.
        n_classes: number of scores per node.
        matrices: further parameters of each word, for encoders that need them.
    """

    temperature: Tensor

    def __init__(
        self,
        embedding: Embedding,
        encoder: TreeEncoder,
        n_classes: int,
        dropout_input: float,
        dropout_hidden: float,
        matrices: Float[Tensor, "v numbers"] | None = None,
    ) -> None:
        super().__init__()
        self.register_buffer("temperature", torch.ones(()))
        self.embedding, self.encoder = embedding, encoder
        self.matrices = None if matrices is None else nn.Parameter(matrices)
        self.output = nn.Linear(encoder.d_out, n_classes)
        self.dropout_input, self.dropout_hidden = dropout_input, dropout_hidden

    def forward(self, batch: WordTrees) -> Float[Tensor, "s k"]:
        """The scores of the nodes that a batch marks as scored."""
        states = self.encoder(self._inputs(batch.words), batch.trees).index_select(0, batch.scored)
        return self.output(F.dropout(states, self.dropout_hidden, self.training))

    def _inputs(self, words: Int[Tensor, "m"]) -> Float[Tensor, "m d_in"]:
        vectors = F.dropout(self.embedding(words[None]).squeeze(0), self.dropout_input, self.training)
        if self.matrices is None:
            return vectors
        return torch.cat((vectors, F.embedding(words, self.matrices, padding_idx=PAD)), dim=1)


def build_tree_model(
    config: ClassifyConfig, n_ids: int, n_classes: int, vectors: WordVectorRows | None = None
) -> TreeClassifier:
    """The model that a config describes, for ``n_ids`` ids and ``n_classes`` classes."""
    settings = config.model
    assert isinstance(settings, TreeClassifierConfig)
    matrix, known = vectors if vectors else (None, None)
    embedding = build_embedding(settings.embedding, n_ids, matrix=matrix, known=known)
    encoder = build_tree_encoder(settings.encoder, embedding.d_out)
    matrices = encoder.first_matrices(n_ids) if isinstance(encoder, MatrixVectorNetwork) else None
    model = TreeClassifier(
        embedding, encoder, n_classes, settings.dropout_input, settings.dropout_hidden, matrices=matrices
    )
    if not isinstance(settings, TreeLSTMClassifierConfig):
        # The output layer reads raw word vectors, so it starts small at any scale of the vectors.
        nn.init.normal_(model.output.weight, std=0.01)
    return model
