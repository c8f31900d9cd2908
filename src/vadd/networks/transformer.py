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

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from vadd.networks.mlp import TimeEmbedding
from vadd.networks.posterior import mean_and_log_std
from vadd.networks.transformer_blocks import AdaptiveNorm, Condition, TransformerBody, TransformerSize
from vadd.networks.unet_blocks import zeroed


class TransformerDenoiser(nn.Module):
    """(xt, z, t) -> logits at the positions asked for; see :class:`vadd.core.model.Denoiser`.

    ``latent_dim=None`` is the MDLM denoiser; ``time_features`` show it t, as SEDD's is shown its noise. The output
    layer starts at zero, that is, from the uniform distribution; so do all gates, so that every block starts as its
    shortcut.
    """

    def __init__(
        self,
        positions: int,
        vocab_size: int,
        size: TransformerSize | None = None,
        *,
        condition: int = 128,
        latent_dim: int | None = None,
        time_features: int = 0,
    ) -> None:
        super().__init__()
        self.uses_time = time_features > 0
        size = size or TransformerSize()
        self.positions = positions
        self.vocab_size = vocab_size
        self.latent = (
            None
            if latent_dim is None
            else nn.Sequential(nn.Linear(latent_dim, condition), nn.SiLU(), nn.Linear(condition, condition), nn.SiLU())
        )
        self.body = TransformerBody(
            positions,
            vocab_size,
            size,
            condition=condition if latent_dim is not None or time_features else None,
            zero=True,
        )
        self.readout = zeroed(nn.Linear(size.width, vocab_size))
        self.time = TimeEmbedding(time_features, condition) if time_features else None

    def forward(self, xt: Tensor, z: Tensor | None, t: Tensor, where: Tensor) -> Tensor:
        told = [] if self.latent is None else [self.latent(z)]
        if self.time is not None:
            told.append(self.time(t))
        condition = Condition(sum(told[1:], told[0])) if told else None
        # A vocabulary is large: what is not asked for never reaches the output layer.
        wanted = where.flatten().nonzero()[:, 0]
        logits: Tensor = self.readout(self.body(xt, condition, wanted))
        return logits

    def latent_input_weights(self) -> list[nn.Parameter]:
        norms = [module for module in self.modules() if isinstance(module, AdaptiveNorm)]
        maps = [norm.modulate for norm in norms if norm.modulate is not None]
        return [parameter for each in maps for name, parameter in each.named_parameters() if name == "weight"]

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

    def __init__(
        self,
        positions: int,
        vocab_size: int,
        size: TransformerSize | None = None,
        *,
        latent_dim: int,
        condition: int = 128,
    ) -> None:
        super().__init__()
        size = size or TransformerSize()
        self.mask_value = vocab_size
        self.mask = nn.Parameter(torch.randn(1, condition))
        self.body = TransformerBody(positions, vocab_size, size, condition=condition, zero=False)
        self.readout = nn.Sequential(
            nn.Linear(size.width, size.width), nn.SiLU(), nn.Linear(size.width, 2 * latent_dim)
        )

    def forward(self, x0: Tensor, xt: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        masked = (xt == self.mask_value).to(self.mask.dtype)[..., None]
        features = self.body(x0, Condition(self.mask, only=masked))
        return mean_and_log_std(self.readout(features.mean(dim=1)))
