"""Small corpora that come with Catena."""
