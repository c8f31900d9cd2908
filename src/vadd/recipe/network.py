"""Section ``network``: which networks, and how large.

Keys at the top hold for both networks of a model; what the denoiser or the recognition model has by itself stands in a
sub-section of that name.
"""

from typing import Annotated, Any, Literal

from pydantic import Field, PositiveFloat, PositiveInt

from vadd.settings import Fraction, Layers, Section

CONVOLUTION = "odd width of a convolution beside each attention; 0: none"
SEEN_OF_TIME = "sinusoids of t shown to the denoiser; 0: it does not see t"
VALUE_EMBEDDING = (
    "numbers that a value is read and written by, the same at all positions; by default each position has a \
table and outputs of its own, which many positions of many values make large"
)
CHECKPOINTING = "recompute activations in the backward pass, to save memory"


class NetworkSection(Section):
    """What every kind of network can be asked."""

    def denoiser_settings(self) -> dict[str, Any]:
        """The keyword arguments of the denoiser: what both networks share, and its own."""
        return self._settings_of("denoiser")

    def recognizer_settings(self) -> dict[str, Any]:
        return self._settings_of("recognizer")

    def _settings_of(self, network: str) -> dict[str, Any]:
        shared: dict[str, Any] = {}
        own: dict[str, Any] = {}
        for name, value in self:
            if isinstance(value, Section):
                own |= value.model_dump() if name == network else {}
            elif name != "kind":
                shared[name] = value
        return shared | own


class MlpDenoiserSection(Section):
    depth: Layers = 4
    latent_frequencies: tuple[PositiveFloat, ...] = Field((), description="Fourier features of z, for few dimensions")


class MlpRecognizerSection(Section):
    depth: Layers = 4


class MlpNetwork(NetworkSection):
    """The networks of the paper's toy experiments."""

    kind: Literal["mlp"] = "mlp"
    width: PositiveInt = 256
    time_features: int = Field(
        0, ge=0, multiple_of=2, description="sinusoids of t shown to the networks; 0: they do not see t"
    )
    smoothness: float = Field(
        0.0, ge=0, description="> 0 starts neighbouring values alike, with about so many periods over the range"
    )
    value_embedding: PositiveInt | None = Field(None, description=VALUE_EMBEDDING)
    denoiser: MlpDenoiserSection = MlpDenoiserSection()
    recognizer: MlpRecognizerSection = MlpRecognizerSection()


class ResidualDenoiserSection(Section):
    blocks: Layers = 3
    time_features: int = Field(0, ge=0, multiple_of=2, description=SEEN_OF_TIME)


class ResidualRecognizerSection(Section):
    blocks: Layers = 2


class PyramidDenoiserSection(Section):
    blocks: Layers = 2
    time_features: int = Field(0, ge=0, multiple_of=2, description=SEEN_OF_TIME)


class ResidualNetwork(NetworkSection):
    """Residual perceptrons over whole images, for CPUs."""

    kind: Literal["residual"] = "residual"
    width: PositiveInt = 768
    dropout: Fraction = 0.0
    value_embedding: PositiveInt | None = Field(None, description=VALUE_EMBEDDING)
    denoiser: ResidualDenoiserSection = ResidualDenoiserSection()
    recognizer: ResidualRecognizerSection = ResidualRecognizerSection()


class PyramidNetwork(NetworkSection):
    """Convolutional pyramids over images whose sides can be halved, for CPUs."""

    kind: Literal["pyramid"] = "pyramid"
    channels: PositiveInt = Field(16, description="planes after the first halving; each further one doubles them")
    width: PositiveInt = Field(512, description="of the vector between the way down and the way up")
    dropout: Fraction = 0.0
    denoiser: PyramidDenoiserSection = PyramidDenoiserSection()
    recognizer: ResidualRecognizerSection = ResidualRecognizerSection()


class UnetNetwork(NetworkSection):
    """The single-resolution UNets of the paper's image experiments; both networks are alike."""

    kind: Literal["unet"] = "unet"
    embedding: PositiveInt = Field(64, description="planes of every block")
    blocks: Layers = Field(8, description="on the way down, and as many on the way up")
    groups: PositiveInt = 16
    heads: PositiveInt = 1
    pixel_embedding: PositiveInt = 32
    dropout: Fraction = 0.1
    checkpointing: bool = Field(False, description=CHECKPOINTING)


TRANSFORMER_SIZES = {
    "tiny": {"width": 256, "blocks": 4, "heads": 4},
    "small": {"width": 768, "blocks": 12, "heads": 12},
    "medium": {"width": 1024, "blocks": 24, "heads": 16},
}
"""``small`` is the paper's, the size of GPT-2 small; ``medium`` follows GPT-2 medium; ``tiny`` is for CPUs."""


class TransformerDenoiserSection(Section):
    time_features: int = Field(0, ge=0, multiple_of=2, description=SEEN_OF_TIME)


class TransformerRecognizerSection(Section):
    blocks: Layers | None = Field(None, description="by default as many as the denoiser's")


class TransformerNetwork(NetworkSection):
    """The diffusion transformers of the paper's text experiments, which are of the size small."""

    kind: Literal["transformer"] = "transformer"
    size: Literal["tiny", "small", "medium"] = "small"
    width: PositiveInt | None = Field(None, description="instead of the size's")
    blocks: Layers | None = Field(None, description="instead of the size's")
    heads: PositiveInt | None = Field(None, description="instead of the size's")
    condition: PositiveInt = Field(128, description="width of the vector that carries the latent into the blocks")
    dropout: Fraction = 0.1
    convolution: int = Field(0, ge=0, description=CONVOLUTION)
    checkpointing: bool = Field(False, description=CHECKPOINTING)
    denoiser: TransformerDenoiserSection = TransformerDenoiserSection()
    recognizer: TransformerRecognizerSection = TransformerRecognizerSection()

    def _settings_of(self, network: str) -> dict[str, Any]:
        """Those of the size, except where the recipe states its own."""
        shared = {name: value for name, value in self if not isinstance(value, Section) and name != "kind"}
        own: dict[str, Any] = getattr(self, network).model_dump()
        stated = [(name, value) for part in (shared, own) for name, value in part.items()]
        return TRANSFORMER_SIZES[self.size] | {n: value for n, value in stated if n != "size" and value is not None}


class ShortTransformerDenoiserSection(Section):
    width: PositiveInt = 128
    blocks: Layers = 3
    latent_everywhere: bool = Field(
        False, description="read the numbers of z that belong to a position also where its value is known"
    )
    time_features: int = Field(0, ge=0, multiple_of=2, description=SEEN_OF_TIME)


class ShortTransformerRecognizerSection(Section):
    width: PositiveInt = 64
    blocks: Layers = 1


class ShortTransformerNetwork(NetworkSection):
    """Small transformers for CPUs, whose latent is divided among the positions: latent.per is position."""

    kind: Literal["short-transformer"] = "short-transformer"
    heads: PositiveInt = 4
    convolution: int = Field(7, ge=0, description=CONVOLUTION)
    dropout: Fraction = 0.0
    denoiser: ShortTransformerDenoiserSection = ShortTransformerDenoiserSection()
    recognizer: ShortTransformerRecognizerSection = ShortTransformerRecognizerSection()


class OwnNetwork(NetworkSection):
    """Somebody's own modules, given in Python; a run remembers what they were called."""

    kind: Literal["own"] = "own"
    denoiser: str
    recognizer: str | None = None


class TableDenoiserSection(Section):
    blocks: PositiveInt = 3


class TableNetwork(NetworkSection):
    """Residual perceptrons over the columns of a table, each with as many values as it has."""

    kind: Literal["table"] = "table"
    width: PositiveInt = 256
    dropout: Fraction = 0.0
    denoiser: TableDenoiserSection = TableDenoiserSection()
    recognizer: ResidualRecognizerSection = ResidualRecognizerSection()


Network = Annotated[
    MlpNetwork
    | ResidualNetwork
    | PyramidNetwork
    | UnetNetwork
    | TransformerNetwork
    | ShortTransformerNetwork
    | TableNetwork
    | OwnNetwork,
    Field(discriminator="kind"),
]


TIME_KEYS: dict[str, tuple[str, ...]] = {
    "mlp": ("time_features",),
    "residual": ("denoiser", "time_features"),
    "pyramid": ("denoiser", "time_features"),
    "transformer": ("denoiser", "time_features"),
    "short-transformer": ("denoiser", "time_features"),
}
"""Where each kind of network says how much it sees of t; UNets always do."""

TIME_FEATURES = {kind: 256 if kind == "transformer" else 32 for kind in TIME_KEYS}
"""What a model that sees t brings; transformers have as many as those of SEDD."""


def sees_time(network: Network) -> bool:
    keys = TIME_KEYS.get(network.kind)
    if keys is None:
        return True
    value: Any = network
    for key in keys:
        value = getattr(value, key)
    return bool(value)
