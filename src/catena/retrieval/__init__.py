"""Which of many texts fits a text: by the words they share, and by vectors."""
