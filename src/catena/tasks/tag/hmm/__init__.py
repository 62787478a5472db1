"""Hidden Markov models as taggers: estimated from counts of tags, or by EM without tags."""
