"""Section ``latent``: the latent variable z of VADD; a model without one ignores it."""

import math
from collections.abc import Sequence
from typing import Literal

from pydantic import NonNegativeInt, PositiveFloat, PositiveInt, model_validator
from torch import nn

from vadd.core import CodedLatent, FlowPrior, GaussianLatent, Latent, NoLatent, SharedLatent
from vadd.networks import NetworkSettings
from vadd.networks.autoregressive import AutoregressiveMixture, AutoregressiveTransformer
from vadd.networks.flows import CouplingFlow, SequenceFlow, StateReader
from vadd.networks.settings import Examples
from vadd.settings import Layers, Section


class FlowSection(Section):
    """A learned prior and how it is fitted; of no meaning for N(0, I)."""

    transforms: Layers = 16
    """Affine couplings."""
    width: PositiveInt = 128
    """Of the two hidden layers in each coupling."""
    components: PositiveInt = 128
    """Gaussians in the mixture that the couplings transform; 1: N(0, I) alone."""
    context: PositiveInt = 64
    """Numbers that a conditional prior reads off a state."""
    steps: PositiveInt = 2000
    """Of `vadd fit-prior`."""
    examples: PositiveInt = 200_000
    """Training examples that the fit reads before it begins, the first ones of more."""
    batch: PositiveInt = 512
    learning_rate: PositiveFloat = 5e-3


class AutoregressiveSection(Section):
    """The network of latent.prior=autoregressive: a masked perceptron over the numbers of z, or a causal transformer
    over positions with latent.per=position.
    """

    width: PositiveInt = 256
    blocks: Layers = 2
    components: PositiveInt = 16
    """Gaussians in the mixture of each number, or position, of z."""
    pairs: bool = False
    """With latent.per=position: learn a number for each pair of positions in each attention, like network.pairs."""


class LatentSection(Section):
    kind: Literal["per-state", "shared"] = "per-state"
    """per-state: z may mean something else in each state, as in the paper; shared: one z for all states, with a
    recognition model that does not see the state.
    """
    dim: NonNegativeInt = 2
    """Numbers in z; 0 with codes alone."""
    per: Literal["example", "position"] = "example"
    """Whether z has dim numbers in all, as in the paper, or for each position."""
    codes: NonNegativeInt = 0
    """Values of a categorical latent beside z, with learned probabilities, summed exactly: training and evaluation read
    every example so many times; 0: none.
    """
    particles: PositiveInt = 1
    """Importance samples in the training bound; 1 is the paper's objective."""
    prior: Literal["normal", "autoregressive", "flow", "conditional"] = "normal"
    """normal: N(0, I), as in the paper; autoregressive: p(z) trained with the model; flow: p(z), fitted when the
    training has ended; conditional: also p(z | x_t), for completions. `vadd fit-prior` fits a flow for any run.
    """
    flow: FlowSection = FlowSection()
    autoregressive: AutoregressiveSection = AutoregressiveSection()

    @model_validator(mode="after")
    def _fits(self) -> "LatentSection":
        if self.kind == "shared" and self.particles > 1:
            raise ValueError("latent.kind=shared needs latent.particles=1")
        if self.prior == "autoregressive" and self.kind != "shared":
            raise ValueError(f"latent.prior=autoregressive needs latent.kind=shared, not {self.kind}")
        if self.codes == 1:
            raise ValueError("latent.codes=1 says nothing: give at least 2, or 0 for none")
        if self.dim == 0 and not self.codes:
            raise ValueError("latent.dim=0 needs latent.codes of at least 2; model=mdlm has no latent at all")
        for name, value in {"kind": "per-state", "per": "example", "prior": "normal"}.items():
            if self.codes and getattr(self, name) != value:
                raise ValueError(f"latent.codes needs latent.{name}={value}, not {getattr(self, name)}")
        return self

    def size(self, shape: Sequence[int]) -> int:
        """The numbers in z for examples of ``shape``."""
        return self.dim * (math.prod(shape) if self.per == "position" else 1)

    def width(self, shape: Sequence[int]) -> int:
        """The numbers that the denoiser is given: z, and which code it is."""
        return self.size(shape) + self.codes

    def build(self, recognizer: nn.Module | None, examples: Examples) -> Latent:
        """A latent of codes alone has no recognition model."""
        latent: Latent = NoLatent()
        dim = self.size(examples.shape)
        if recognizer is not None and self.kind == "shared":
            prior = self.build_trained_prior(examples) if self.prior == "autoregressive" else None
            latent = SharedLatent(recognizer, dim, examples.vocab_size, prior=prior)
        elif recognizer is not None:
            latent = GaussianLatent(recognizer, dim, self.particles)
        return CodedLatent(self.codes, latent) if self.codes else latent

    def build_trained_prior(self, examples: Examples) -> FlowPrior:
        """The prior that is trained with the model."""
        classes = len(examples.labels or ())
        sizes = {"context": classes + 1 if classes else 0, **self.autoregressive.model_dump()}
        if self.per == "position":
            along = AutoregressiveTransformer(examples.positions, self.dim, **sizes)
            return FlowPrior(along, classes=classes, positions=examples.positions)
        del sizes["pairs"]
        return FlowPrior(AutoregressiveMixture(self.size(examples.shape), **sizes), classes=classes)

    def build_prior(self, network: NetworkSettings, examples: Examples, *, conditional: bool) -> FlowPrior:
        """An untrained flow over z. A ``conditional`` one reads states by a network like the recognition model."""
        flow, dim = self.flow, self.size(examples.shape)
        # Labels are read as one more value each, with a value for no label.
        classes = len(examples.labels or ())
        labels, sizes = classes + 1 if classes else 0, flow.model_dump(include={"transforms", "width"})

        def reader(numbers: int, share: int | None = None) -> StateReader | None:
            """It writes twice the ``numbers``, as a recognition model writes means and log-stds."""
            return StateReader(network.build_recognizer(examples, numbers), share) if conditional else None

        if self.per == "position":
            along = SequenceFlow(examples.positions, self.dim, context=2 * self.dim * conditional + labels, **sizes)
            return FlowPrior(along, reader(dim, self.dim), classes, positions=examples.positions)
        half = -(-flow.context // 2)
        context = 2 * half * conditional + labels
        coupling = CouplingFlow(dim, context=context, components=flow.components, **sizes)
        return FlowPrior(coupling, reader(half), classes)
