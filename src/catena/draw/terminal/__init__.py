"""The pictures as plain Unicode text for a terminal. Tested in tests/draw/terminal."""
