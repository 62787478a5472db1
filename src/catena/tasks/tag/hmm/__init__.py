"""Hidden Markov models as taggers: counted from tags, or learned by EM without them."""
