"""One-to-one alignments."""
