"""Examples that are rows of a table."""
