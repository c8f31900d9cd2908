"""Function approximators: (tokens, conditioning) -> logits or posterior parameters. They know nothing of diffusion.

To add one, write its file with a :class:`NetworkSettings` that builds it, and enter that in :data:`Network`.
"""

from typing import get_args

from vadd.networks.perceptrons import MlpDenoiser, MlpSettings, ResidualSettings, SiameseMlpRecognizer
from vadd.networks.pretrained import PretrainedDenoiser, TransformersSettings
from vadd.networks.pyramid import PyramidSettings
from vadd.networks.settings import CustomNetworks, CustomSettings, NetworkSettings
from vadd.networks.short_transformer import ShortTransformerSettings
from vadd.networks.tables import TableSettings
from vadd.networks.transformer import TransformerSettings
from vadd.networks.unet import UnetSettings

Network = (
    MlpSettings
    | ResidualSettings
    | PyramidSettings
    | UnetSettings
    | TransformerSettings
    | ShortTransformerSettings
    | TableSettings
    | TransformersSettings
    | CustomSettings
)
"""All settings of networks."""

NETWORKS: dict[str, type[NetworkSettings]] = {
    settings.model_fields["kind"].default: settings for settings in get_args(Network)
}
"""By the names that recipes give them."""
