"""The training loop and what it needs: optimiser, averaged weights, checkpoints, metrics, a progress display."""
