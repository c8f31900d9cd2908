"""Function approximators: (tokens, conditioning) -> logits or posterior parameters. They know nothing of diffusion."""

from vadd.networks.causal import CausalTransformer
from vadd.networks.flows import CouplingFlow, StateReader
from vadd.networks.mlp import MlpDenoiser, SiameseMlpRecognizer
from vadd.networks.pyramid import PyramidDenoiser, PyramidRecognizer
from vadd.networks.residual import ResidualDenoiser, ResidualRecognizer
from vadd.networks.sequence_flow import SequenceFlow
from vadd.networks.short_transformer import ShortTransformerDenoiser, ShortTransformerRecognizer
from vadd.networks.table import TableDenoiser, TableRecognizer
from vadd.networks.transformer import TransformerDenoiser, TransformerRecognizer
from vadd.networks.transformer_blocks import TransformerSize
from vadd.networks.unet import SiameseUnetRecognizer, UnetDenoiser
from vadd.networks.unet_blocks import UnetSize

__all__ = [
    "CausalTransformer",
    "CouplingFlow",
    "MlpDenoiser",
    "PyramidDenoiser",
    "PyramidRecognizer",
    "ResidualDenoiser",
    "ResidualRecognizer",
    "SequenceFlow",
    "ShortTransformerDenoiser",
    "ShortTransformerRecognizer",
    "SiameseMlpRecognizer",
    "SiameseUnetRecognizer",
    "StateReader",
    "TableDenoiser",
    "TableRecognizer",
    "TransformerDenoiser",
    "TransformerRecognizer",
    "TransformerSize",
    "UnetDenoiser",
    "UnetSize",
]
