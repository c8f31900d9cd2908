"""Function approximators: (tokens, conditioning) -> logits or posterior parameters. They know nothing of diffusion.

To add one, write its file with a :class:`NetworkSettings` that builds it, and enter that in :data:`Network`.
"""

from typing import get_args

from vadd.networks.causal import CausalTransformer
from vadd.networks.custom import CustomNetworks, CustomSettings
from vadd.networks.flows import CouplingFlow, SequenceFlow, StateReader
from vadd.networks.mlp import MlpDenoiser, MlpSettings, SiameseMlpRecognizer
from vadd.networks.pyramid import PyramidDenoiser, PyramidRecognizer, PyramidSettings
from vadd.networks.residual import ResidualDenoiser, ResidualRecognizer, ResidualSettings
from vadd.networks.settings import NetworkSettings
from vadd.networks.short_transformer import (
    ShortTransformerDenoiser,
    ShortTransformerRecognizer,
    ShortTransformerSettings,
)
from vadd.networks.table import TableDenoiser, TableRecognizer, TableSettings
from vadd.networks.transformer import TransformerDenoiser, TransformerRecognizer, TransformerSettings
from vadd.networks.transformer_blocks import TransformerSize
from vadd.networks.unet import SiameseUnetRecognizer, UnetDenoiser, UnetSettings

Network = (
    MlpSettings
    | ResidualSettings
    | PyramidSettings
    | UnetSettings
    | TransformerSettings
    | ShortTransformerSettings
    | TableSettings
    | CustomSettings
)
"""All settings of networks."""

NETWORKS: dict[str, type[NetworkSettings]] = {
    settings.model_fields["kind"].default: settings for settings in get_args(Network)
}
"""By the names that recipes give them."""

__all__ = [
    "NETWORKS",
    "CausalTransformer",
    "CouplingFlow",
    "CustomNetworks",
    "CustomSettings",
    "MlpDenoiser",
    "MlpSettings",
    "Network",
    "NetworkSettings",
    "PyramidDenoiser",
    "PyramidRecognizer",
    "PyramidSettings",
    "ResidualDenoiser",
    "ResidualRecognizer",
    "ResidualSettings",
    "SequenceFlow",
    "ShortTransformerDenoiser",
    "ShortTransformerRecognizer",
    "ShortTransformerSettings",
    "SiameseMlpRecognizer",
    "SiameseUnetRecognizer",
    "StateReader",
    "TableDenoiser",
    "TableRecognizer",
    "TableSettings",
    "TransformerDenoiser",
    "TransformerRecognizer",
    "TransformerSettings",
    "TransformerSize",
    "UnetDenoiser",
    "UnetSettings",
]
