"""Word vectors: train them on text, resume training, query and evaluate them."""
