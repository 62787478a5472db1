"""File readers, one module for each format. They yield typed examples; errors name file, line and cure."""
