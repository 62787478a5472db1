"""Applications with few users: correction of misspelled text, verse, geometry problems, styles of pictures."""
