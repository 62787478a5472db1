"""Linear chains: sums, scores and searches of tag sequences."""
