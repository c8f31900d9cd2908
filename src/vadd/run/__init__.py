"""A run: its directory, its checkpoints, and what can be done with it."""
