"""The same pictures in plain Unicode text, for a terminal."""
