"""Diffusion transformers over text: the networks of the paper's language experiments.

The architecture is the one of score-entropy discrete diffusion (Lou et al. 2024): rotary positions, layer norms before
attention and perceptron, scaled, shifted and gated by a condition (AdaLN-zero); no time input. Its counts pin what the
paper leaves open. With 12 blocks of width 768 and conditioning width 128, 169.6M parameters for GPT-2's vocabulary and
139.3M for BERT's mean: embedding and output layer are not tied; the norms have weights and no biases; the linear maps
of attention have no biases, those of the perceptrons, of the conditioning and of the output have; and the last norm is
adaptive like the others, which makes 7.33M for all of them.

The paper counts these 7.33M, "around 6%", as what VADD adds to MDLM. So without a latent there is no condition; scales,
shifts and gates stay, as plain parameters. They alone speed training up, which must not pass for a gain of the latent.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from vadd.core.host import Places, Where
from vadd.networks.layers import DenoiserBase, Linear, condition_layers, mean_and_log_std, time_embedding, zeroed
from vadd.networks.settings import CHECKPOINTING, TIME_FEATURES, Examples, NetworkSettings
from vadd.networks.transformer_blocks import CONVOLUTION, Condition, TransformerBody, TransformerSize
from vadd.settings import Fraction, Layers, Section


class CausalTransformer(nn.Module):
    """(x) -> logits at the positions asked for, each from the positions before it; see
    :class:`vadd.core.Denoiser`. What stands at a position or to its right does not matter and may be the mask.

    It starts as :class:`~vadd.networks.transformer.TransformerDenoiser` does or, ``short``, as
    :class:`~vadd.networks.short_transformer.ShortTransformerDenoiser`.
    """

    uses_time = False
    takes_places: ClassVar[bool] = True

    def __init__(self, positions: int, vocab_size: int, size: TransformerSize, *, short: bool = False) -> None:
        super().__init__()
        self.positions, self.vocab_size = positions, vocab_size
        self.places = nn.Parameter(0.02 * torch.randn(positions, size.width)) if short else None
        self.body = TransformerBody(positions, vocab_size, size, condition=None, zero=not short, causal=True)
        self.readout = Linear(size.width, vocab_size)
        if short:
            nn.init.normal_(self.body.embedding.weight)
        else:
            zeroed(self.readout)

    def forward(self, xt: Tensor, z: Tensor | None, t: Tensor, where: Where) -> Tensor:
        wanted = Places.of(where).numbers
        return self.readout(self.body(self._shifted(xt), None, wanted, self.places))

    def _shifted(self, x: Tensor) -> Tensor:
        """What each position is predicted from: the token before it, and at first the start token."""
        return torch.cat([torch.full_like(x[:, :1], self.vocab_size), x[:, :-1]], dim=1)

    def reader(self) -> Callable[[Tensor, int], Tensor]:
        """Reads sequences from left to right and never twice: keys and values are kept. It is given sequences x (B, N)
        and a position, to the right of those asked for before, and returns the logits (B, V) there.
        """
        past = self.body.no_past()
        read = 0

        def logits(x: Tensor, position: int) -> Tensor:
            nonlocal read
            new = slice(read, position + 1)
            added = None if self.places is None else self.places[new]
            features = self.body(self._shifted(x)[:, new], None, added=added, past=past)
            read = position + 1
            return self.readout(features[:, -1])

        return logits

    @property
    def cache_bytes(self) -> int:
        """What a reader keeps of one sequence at the end."""
        return 2 * len(self.body.no_past()) * self.positions * self.body.embedding.weight[0].nbytes


SIZES = {
    "tiny": {"width": 256, "blocks": 4, "heads": 4},
    "small": {"width": 768, "blocks": 12, "heads": 12},
    "medium": {"width": 1024, "blocks": 24, "heads": 16},
}
"""``small`` is the paper's, the size of GPT-2 small; ``medium`` follows GPT-2 medium; ``tiny`` is for CPUs."""


class TransformerDenoiserSettings(Section):
    time_features: int = Field(0, ge=0, multiple_of=2, description=TIME_FEATURES)


class TransformerRecognizerSettings(Section):
    blocks: Layers | None = Field(None, description="by default as many as the denoiser's")


class TransformerSettings(NetworkSettings):
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
    denoiser: TransformerDenoiserSettings = TransformerDenoiserSettings()
    recognizer: TransformerRecognizerSettings = TransformerRecognizerSettings()
    rows_at_once: ClassVar[int] = 8
    usual_time_features: ClassVar[int] = 256  # as many as SEDD's

    def values_of(self, part: str) -> dict[str, Any]:
        """Those of the size, except where the recipe states others."""
        stated = super().values_of(part).items()
        return SIZES[self.size] | {name: value for name, value in stated if name != "size" and value is not None}

    def size_of(self, part: str) -> TransformerSize:
        return TransformerSize.of(self.values_of(part))

    def build_causal(self, examples: Examples) -> nn.Module:
        return CausalTransformer(examples.positions, examples.vocab_size, self.size_of("denoiser"))


class TransformerDenoiser(DenoiserBase):
    """``time_features`` show it t, as SEDD's is shown its noise. The output layer starts at zero, that is, from the
    uniform distribution; so do all gates, so that every block starts as its shortcut.
    """

    def __init__(
        self, positions: int, vocab_size: int, settings: TransformerSettings, *, latent_dim: int | None = None
    ) -> None:
        features, condition, size = settings.denoiser.time_features, settings.condition, settings.size_of("denoiser")
        super().__init__(positions, vocab_size, uses_time=features > 0)
        self.latent = None if latent_dim is None else nn.Sequential(*condition_layers(latent_dim, condition))
        read = condition if latent_dim is not None or features else None
        self.body = TransformerBody(positions, vocab_size, size, condition=read, zero=True)
        self.readout = zeroed(Linear(size.width, vocab_size))
        self.time = time_embedding(features, condition)

    def forward(self, xt: Tensor, z: Tensor | None, t: Tensor, where: Where) -> Tensor:
        read = [] if self.latent is None else [self.latent(z)]
        if self.time is not None:
            read.append(self.time(t))
        condition = Condition(sum(read[1:], read[0])) if read else None
        # A vocabulary is large: what is not asked for never reaches the output layer.
        wanted = Places.of(where).numbers
        return self.readout(self.body(xt, condition, wanted))

    def latent_input_weights(self) -> list[nn.Parameter]:
        return [parameter for name, parameter in self.named_parameters() if name.endswith(".modulate.weight")]

    def translated(self, weights: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """What is a constant without a condition is the bias of the map that reads the condition."""
        if self.latent is None or self.time is not None:
            return weights
        return {
            f"{name.removesuffix('constant')}modulate.bias" if name.endswith(".constant") else name: tensor
            for name, tensor in weights.items()
        }


class TransformerRecognizer(nn.Module):
    """(x0, xt) -> mean and log standard deviation of r(z | x0, xt), each (B, d), without time input.

    One pass over x0. Where xt is masked, the norms are adapted by a learned vector, the same for all positions; where
    it is not they are plain. The paper leaves the pooling open: the mean over positions, then a perceptron. Nothing
    here starts at zero: a recognition model that does not see the mask lets the posterior collapse.
    """

    def __init__(self, positions: int, vocab_size: int, settings: TransformerSettings, *, latent_dim: int) -> None:
        super().__init__()
        size, condition = settings.size_of("recognizer"), settings.condition
        self.mask_value = vocab_size
        self.mask = nn.Parameter(torch.randn(1, condition))
        self.body = TransformerBody(positions, vocab_size, size, condition=condition, zero=False)
        self.readout = nn.Sequential(Linear(size.width, size.width), nn.SiLU(), Linear(size.width, 2 * latent_dim))

    def forward(self, x0: Tensor, xt: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        masked = (xt == self.mask_value).to(self.mask.dtype)[..., None]
        features = self.body(x0, Condition(self.mask, only=masked))
        return mean_and_log_std(self.readout(features.mean(dim=1)))


TransformerSettings.networks = TransformerDenoiser, TransformerRecognizer
