"""Whole pieces of work made of training, evaluation and report: a comparison, the demonstration, the paper's
experiments.
"""
