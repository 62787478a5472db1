"""A tag for each word of a sentence: parts of speech, chunks, names, slots, words of Chinese text."""
