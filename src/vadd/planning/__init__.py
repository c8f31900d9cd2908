"""What a training will take."""
