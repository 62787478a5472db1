"""Reproducible results, one file each, with the command, the protocol, the score and the time."""
