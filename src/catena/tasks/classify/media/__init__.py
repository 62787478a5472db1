"""Classification of pictures and sounds."""
