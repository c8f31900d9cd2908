"""Function approximators: (tokens, conditioning) -> logits or posterior parameters. They know nothing of diffusion."""

from vadd.networks.mlp import MlpDenoiser, SiameseMlpRecognizer
from vadd.networks.residual import ResidualDenoiser, ResidualRecognizer
from vadd.networks.unet import SiameseUnetRecognizer, UnetDenoiser

__all__ = [
    "MlpDenoiser",
    "ResidualDenoiser",
    "ResidualRecognizer",
    "SiameseMlpRecognizer",
    "SiameseUnetRecognizer",
    "UnetDenoiser",
]
