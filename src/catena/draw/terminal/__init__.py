"""The pictures as plain Unicode text for a terminal."""
