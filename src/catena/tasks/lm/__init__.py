"""Language models: train on a text, score, continue, compare."""
