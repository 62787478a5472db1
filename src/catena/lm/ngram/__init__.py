"""n-gram language models: counts, estimators, pruning, files, queries and automata."""
