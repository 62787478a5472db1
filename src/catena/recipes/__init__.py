"""One file is one reproducible result: the command, the protocol, the score and the time."""
