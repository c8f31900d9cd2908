"""Custom networks: modules that the user gives in Python instead of settings."""

import copy
from dataclasses import dataclass
from typing import ClassVar, Literal, NoReturn

from torch import nn

from vadd.errors import UserError
from vadd.networks.settings import Examples, NetworkSettings


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
        raise UserError("custom networks cannot be built from a recipe, and a conditional prior needs one that can")


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
