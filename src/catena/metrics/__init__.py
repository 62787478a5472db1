"""What compares a prediction with a reference. Plain sequences and numpy arrays in, numbers out."""
