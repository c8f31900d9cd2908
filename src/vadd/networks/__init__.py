"""Function approximators: (tokens, conditioning) -> logits or posterior parameters. They know nothing of diffusion."""

from vadd.networks.mlp import MlpDenoiser, SiameseMlpRecognizer
from vadd.networks.residual import ResidualDenoiser, ResidualRecognizer
from vadd.networks.short_transformer import ShortTransformerDenoiser, ShortTransformerRecognizer
from vadd.networks.transformer import TRANSFORMER_SIZES, TransformerDenoiser, TransformerRecognizer
from vadd.networks.unet import SiameseUnetRecognizer, UnetDenoiser

__all__ = [
    "TRANSFORMER_SIZES",
    "MlpDenoiser",
    "ResidualDenoiser",
    "ResidualRecognizer",
    "ShortTransformerDenoiser",
    "ShortTransformerRecognizer",
    "SiameseMlpRecognizer",
    "SiameseUnetRecognizer",
    "TransformerDenoiser",
    "TransformerRecognizer",
    "UnetDenoiser",
]
