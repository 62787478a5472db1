"""Word vectors: train them on text, resume training, and query them."""
