"""Tree-LSTMs, level by level."""
