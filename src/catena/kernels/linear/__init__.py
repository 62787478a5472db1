"""Linear maps of few rows, in float32 and in 8 bits."""
