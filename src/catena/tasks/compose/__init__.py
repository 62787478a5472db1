"""Generation of texts from a goal and an agenda, such as recipes, and of verse on a topic."""
