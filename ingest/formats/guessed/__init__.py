"""JSON whose types are guessed from its values."""
