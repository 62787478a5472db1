"""What chooses a sequence, given p(next | …), and knows nothing else."""
