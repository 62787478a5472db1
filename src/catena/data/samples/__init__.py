"""Small corpora that were written for Catena and come with it."""
