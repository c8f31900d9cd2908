"""Networks by the names that recipes give them."""

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from vadd.data import ExampleFormat
from vadd.errors import UserError
from vadd.networks import (
    CausalTransformer,
    MlpDenoiser,
    PyramidDenoiser,
    PyramidRecognizer,
    ResidualDenoiser,
    ResidualRecognizer,
    ShortTransformerDenoiser,
    ShortTransformerRecognizer,
    SiameseMlpRecognizer,
    SiameseUnetRecognizer,
    TableDenoiser,
    TableRecognizer,
    TransformerDenoiser,
    TransformerRecognizer,
    TransformerSize,
    UnetDenoiser,
    UnetSize,
)
from vadd.recipe import Network, OwnNetwork


@dataclass(frozen=True)
class NetworkKind:
    denoiser: Callable[..., nn.Module]
    """Shape of an example, vocabulary size, ``latent_dim`` and the section's settings -> the network."""
    recognizer: Callable[..., nn.Module]
    rows_at_once: int
    """Examples that judging shows the network at a time; part of what the seed of a bound means."""
    causal: Callable[..., nn.Module] | None = None
    """The same as the denoiser for one that reads from left to right, where there is one."""
    takes_sizes: bool = False
    """Whether it is told how many values each position has, ``sizes``."""
    takes_labels: bool = False
    """Whether its denoiser is told how many of the numbers beside z say which label it is, ``labels``."""


def _of_sequences(network: Callable[..., nn.Module]) -> Callable[..., nn.Module]:
    """A network over N positions, whatever their shape was."""

    def build(shape: Sequence[int], vocab_size: int, *, latent_dim: int | None, **settings: Any) -> nn.Module:
        return network(math.prod(shape), vocab_size, latent_dim=latent_dim, **settings)

    return build


def _sized(network: Callable[..., nn.Module], size: type[Any], *others: str) -> Callable[..., nn.Module]:
    """A network whose settings, but for the ``others``, are those of a ``size``."""

    def build(first: Any, vocab_size: int, *, latent_dim: int | None, **settings: Any) -> nn.Module:
        own = {name: settings.pop(name) for name in others if name in settings}
        return network(first, vocab_size, size(**settings), latent_dim=latent_dim, **own)

    return build


def _causal(*left_out: str, short: bool = False) -> Callable[..., nn.Module]:
    """A transformer of the denoiser's size, without the settings that are about latent and time."""

    def build(shape: Sequence[int], vocab_size: int, **settings: Any) -> nn.Module:
        size = TransformerSize(**{name: value for name, value in settings.items() if name not in left_out})
        return CausalTransformer(math.prod(shape), vocab_size, size, short=short)

    return build


NETWORKS: dict[str, NetworkKind] = {
    "mlp": NetworkKind(_of_sequences(MlpDenoiser), _of_sequences(SiameseMlpRecognizer), rows_at_once=8192),
    "residual": NetworkKind(_of_sequences(ResidualDenoiser), _of_sequences(ResidualRecognizer), rows_at_once=8192),
    "pyramid": NetworkKind(PyramidDenoiser, PyramidRecognizer, rows_at_once=1024),
    "unet": NetworkKind(_sized(UnetDenoiser, UnetSize), _sized(SiameseUnetRecognizer, UnetSize), rows_at_once=64),
    "transformer": NetworkKind(
        _of_sequences(_sized(TransformerDenoiser, TransformerSize, "condition", "time_features")),
        _of_sequences(_sized(TransformerRecognizer, TransformerSize, "condition")),
        rows_at_once=8,
        causal=_causal("condition", "time_features"),
    ),
    "short-transformer": NetworkKind(
        _of_sequences(
            _sized(ShortTransformerDenoiser, TransformerSize, "latent_everywhere", "time_features", "labels")
        ),
        _of_sequences(_sized(ShortTransformerRecognizer, TransformerSize)),
        rows_at_once=64,
        causal=_causal("latent_everywhere", "time_features", short=True),
        takes_labels=True,
    ),
    "table": NetworkKind(
        _of_sequences(TableDenoiser), _of_sequences(TableRecognizer), rows_at_once=8192, takes_sizes=True
    ),
}


def _given_elsewhere(*_: Any, denoiser: str, recognizer: str | None, **__: Any) -> nn.Module:
    named = denoiser if recognizer is None else f"{denoiser} and {recognizer}"
    asked = "denoiser=..." if recognizer is None else "denoiser=..., recognizer=..."
    raise UserError(f"this model has networks of somebody's own, {named}: open it in Python, vadd.load(PATH, {asked})")


NETWORKS["own"] = NetworkKind(_given_elsewhere, _given_elsewhere, rows_at_once=256)


@dataclass(frozen=True)
class OwnNetworks:
    """Modules that somebody gave instead of a section ``network``; they stay as they are, a model has copies."""

    denoiser: nn.Module
    recognizer: nn.Module | None = None

    def section(self) -> OwnNetwork:
        named = None if self.recognizer is None else type(self.recognizer).__qualname__
        return OwnNetwork(denoiser=type(self.denoiser).__qualname__, recognizer=named)

    def copies(self) -> tuple[nn.Module, nn.Module | None]:
        """Together, so that what the two share they go on sharing; in train mode, whatever theirs is."""
        denoiser, recognizer = copy.deepcopy((self.denoiser, self.recognizer))
        return denoiser.train(), None if recognizer is None else recognizer.train()


def rows_at_once(network: Network) -> int:
    """Examples that judging shows a network at a time."""
    return NETWORKS[network.kind].rows_at_once


def build_denoiser(network: Network, format: ExampleFormat, latent_dim: int | None) -> nn.Module:
    settings = network.denoiser_settings() | _sizes(network, format)
    if format.labels is not None and NETWORKS[network.kind].takes_labels:
        settings["labels"] = len(format.labels)
    return NETWORKS[network.kind].denoiser(format.shape, format.vocab_size, latent_dim=latent_dim, **settings)


def build_recognizer(network: Network, format: ExampleFormat, latent_dim: int) -> nn.Module:
    settings = network.recognizer_settings() | _sizes(network, format)
    return NETWORKS[network.kind].recognizer(format.shape, format.vocab_size, latent_dim=latent_dim, **settings)


def _sizes(network: Network, format: ExampleFormat) -> dict[str, Any]:
    return {"sizes": format.sizes} if NETWORKS[network.kind].takes_sizes else {}
