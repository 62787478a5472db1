"""One file for each format. A reader yields plain typed examples and names file, line and cure on bad input."""
