"""Function approximators: (tokens, conditioning) -> logits or posterior parameters. They know nothing of diffusion."""

from vadd.networks.mlp import MlpDenoiser, SiameseMlpRecognizer

__all__ = ["MlpDenoiser", "SiameseMlpRecognizer"]
