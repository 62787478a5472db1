"""Classification of trees: the root and every other node."""
