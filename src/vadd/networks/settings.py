"""What the settings of every network have in common. Each network's own stand in its file and build it."""

from typing import Any, ClassVar, Protocol

from torch import nn

from vadd.errors import UserError
from vadd.settings import Section

CHECKPOINTING = "recompute activations in the backward pass, to save memory"
TIME_FEATURES = "sinusoids of t shown to the denoiser; 0: it does not see t"


class Examples(Protocol):
    """What networks must know of the examples."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def positions(self) -> int: ...
    @property
    def vocab_size(self) -> int: ...
    @property
    def sizes(self) -> tuple[int, ...] | None:
        """The number of values of each position, where they differ."""
        ...

    @property
    def labels(self) -> tuple[str, ...] | None: ...


class NetworkSettings(Section):
    """The section ``network`` of a recipe: keys of both networks, and sub-sections ``denoiser`` and ``recognizer``."""

    kind: str
    rows_at_once: ClassVar[int]
    """Examples that evaluation shows the network at a time; the seed of a bound depends on it."""
    time_key: ClassVar[str | None] = "denoiser.time_features"
    """Which key says how many sinusoids of t the denoiser sees; None: it always sees t."""
    usual_time_features: ClassVar[int] = 32
    """Brought by models that need t."""
    divides_latent: ClassVar[bool] = False
    """Whether each position has numbers of z of its own."""

    def build_denoiser(self, examples: Examples, latent_dim: int | None) -> nn.Module:
        raise NotImplementedError

    def build_recognizer(self, examples: Examples, latent_dim: int) -> nn.Module:
        raise NotImplementedError

    def build_causal(self, examples: Examples) -> nn.Module:
        """The denoiser's size, reading from left to right."""
        raise UserError(f"network.kind={self.kind} has no form that reads from left to right")

    def values_of(self, part: str) -> dict[str, Any]:
        """The settings of the ``denoiser`` or ``recognizer``: shared ones and its own."""
        shared = {name: value for name, value in self if not isinstance(value, Section) and name != "kind"}
        own = getattr(self, part, None)
        return shared | (own.model_dump(exclude_none=True) if isinstance(own, Section) else {})

    @property
    def sees_time(self) -> bool:
        return self.time_key is None or bool(self.values_of("denoiser")["time_features"])
