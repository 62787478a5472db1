"""The likelihood of a softmax layer over many words."""
