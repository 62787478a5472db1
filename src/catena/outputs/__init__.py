"""What turns one vector into a distribution over a vocabulary, or its loss."""
