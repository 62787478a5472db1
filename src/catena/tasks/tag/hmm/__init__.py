"""Hidden Markov models as taggers: counted from tags, or learnt by EM without them."""
