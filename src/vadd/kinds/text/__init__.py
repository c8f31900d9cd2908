"""Examples that are text."""
