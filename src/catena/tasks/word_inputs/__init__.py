"""Word inputs of taggers and parsers."""
