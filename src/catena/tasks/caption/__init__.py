"""Captions of pictures: soft and hard attention over the parts of a picture."""
