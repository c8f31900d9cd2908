"""Samples and completions of a model in bounded memory."""
