"""What the settings of every network have in common. Each network's own stand in its file and build it."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NoReturn, Protocol

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

    @property
    def ordered(self) -> tuple[int, ...] | None:
        """How many values of each position, the first ones, are bins of numbers in their order; None where it is not
        known of any.
        """

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
    networks: ClassVar[tuple[Callable[..., nn.Module], Callable[..., nn.Module]]]
    """Denoiser and recognition model; stated after them."""
    measure: ClassVar[str] = "positions"
    """Facts about the examples besides the number of values."""

    @property
    def divides_latent(self) -> bool:
        """Whether each position has numbers of z of its own."""
        return False

    def without_paths(self) -> "NetworkSettings":
        """For publication: without where something lies on this machine."""
        return self

    def build_denoiser(self, examples: Examples, latent_dim: int | None) -> nn.Module:
        return self.networks[0](getattr(examples, self.measure), examples.vocab_size, self, latent_dim=latent_dim)

    def build_recognizer(self, examples: Examples, latent_dim: int) -> nn.Module:
        return self.networks[1](getattr(examples, self.measure), examples.vocab_size, self, latent_dim=latent_dim)

    def build_causal(self, examples: Examples) -> nn.Module:
        """The denoiser's size, reading from left to right."""
        raise UserError(f"model=ar needs a network with a causal mask; network.kind={self.kind} has none")

    def values_of(self, part: str) -> dict[str, Any]:
        """The settings of the ``denoiser`` or ``recognizer``: shared ones and its own."""
        shared = {name: value for name, value in self if not isinstance(value, Section) and name != "kind"}
        own = getattr(self, part, None)
        return shared | (own.model_dump(exclude_none=True) if isinstance(own, Section) else {})

    @property
    def sees_time(self) -> bool:
        return self.time_key is None or bool(self.values_of("denoiser")["time_features"])


class CustomSettings(NetworkSettings):
    """Custom networks, given in Python; a run stores the names of their classes."""

    kind: Literal["own"] = "own"
    denoiser: str
    recognizer: str | None = None
    rows_at_once: ClassVar[int] = 256
    time_key: ClassVar[str | None] = None

    def arguments(self) -> dict[str, str]:
        """What :func:`vadd.load` needs for them: argument and name of the class."""
        classes = {"denoiser": self.denoiser, "recognizer": self.recognizer}
        return {argument: name for argument, name in classes.items() if name is not None}

    def build_denoiser(self, examples: Examples, latent_dim: int | None) -> NoReturn:
        given = ", ".join(f"{argument}={name}(...)" for argument, name in self.arguments().items())
        raise UserError(f"this model has custom networks: open it in Python, vadd.load(PATH, {given})")

    def build_recognizer(self, examples: Examples, latent_dim: int) -> NoReturn:
        raise UserError("a conditional prior needs networks of a recipe; with custom networks choose another prior")


@dataclass(frozen=True)
class CustomNetworks:
    """The modules themselves; a model gets copies."""

    denoiser: nn.Module
    recognizer: nn.Module | None = None

    def section(self) -> CustomSettings:
        recognizer = None if self.recognizer is None else type(self.recognizer).__qualname__
        return CustomSettings(denoiser=type(self.denoiser).__qualname__, recognizer=recognizer)

    @property
    def sizes(self) -> tuple[int, int]:
        """Positions and values that the denoiser is made for."""
        return int(self.denoiser.positions), int(self.denoiser.vocab_size)  # type: ignore[arg-type]

    def check_sizes(self, examples: Examples) -> None:
        """Refuse examples of another size."""
        positions, vocab_size = self.sizes
        if (positions, vocab_size) != (examples.positions, examples.vocab_size):
            raise UserError(
                f"the denoiser is made for {positions} positions of {vocab_size} values; the data have "
                f"{examples.positions} of {examples.vocab_size}"
            )

    def copies(self) -> tuple[nn.Module, nn.Module | None]:
        """In train mode; copied together, so that what the two share stays shared."""
        denoiser, recognizer = copy.deepcopy((self.denoiser, self.recognizer))
        return denoiser.train(), None if recognizer is None else recognizer.train()
