"""The package from Python: train, load, and what a run can be asked. ``import vadd`` gives all of it."""
