"""Applications with few users: correction of misspelled text, verse, and geometry problems for pointer networks."""
