"""Whether a custom network satisfies the protocol that training, sampling and bounds rely on, and what is wrong if not.

A denoiser that answers in the wrong order, or lets one example influence another, trains without complaint and bounds
nothing. So it is asked a few questions to which the answers are known.
"""

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

ROWS = 5
TOLERANCE = 1e-4
"""Of equal answers, over their largest entry: sums in another order differ by less."""


@dataclass(frozen=True)
class Findings:
    """What is wrong with networks (``problems``) and what may be intended (``notes``)."""

    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.problems

    def __add__(self, other: "Findings") -> "Findings":
        return Findings(self.problems + other.problems, self.notes + other.notes)

    def __repr__(self) -> str:
        lines = [f"problem: {line}" for line in self.problems] + [f"note: {line}" for line in self.notes]
        return "\n".join(["ok" if self.ok else f"{len(self.problems)} of the protocol's rules broken", *lines])


def check(denoiser: Any, recognizer: Any = None, *, latent_dim: int | None = None) -> Findings:
    """What is wrong with custom networks, before they are trained.

    ``latent_dim`` is the length of z; with a recognition model it is what that returns. Without either the denoiser is
    asked for a model without a latent, with z None. Neither network is changed.

    >>> from vadd.networks import MlpDenoiser, MlpSettings, SiameseMlpRecognizer
    >>> denoiser = MlpDenoiser(3, 4, MlpSettings(width=8), latent_dim=2)
    >>> check(denoiser, SiameseMlpRecognizer(3, 4, MlpSettings(width=8), latent_dim=2))
    ok
    """
    findings = Findings(tuple(_attributes(denoiser)))
    if not findings.ok:
        return findings
    if recognizer is not None and not isinstance(recognizer, nn.Module):
        return Findings((f"the recognition model is a {type(recognizer).__name__}; needed is a torch.nn.Module",))
    if recognizer is not None:
        questions = _OfRecognizer(recognizer, denoiser.positions, denoiser.vocab_size)
        findings += questions.findings(latent_dim)
        latent_dim = questions.dim if latent_dim is None else latent_dim
        if latent_dim is None:  # it could not be asked
            return findings
    return findings + _OfDenoiser(denoiser, latent_dim).findings()


def latent_size(recognizer: nn.Module | None, positions: int, vocab_size: int) -> int:
    """The length of the z of a recognition model that satisfies its protocol; 0 without one."""
    return 0 if recognizer is None else _OfRecognizer(recognizer, positions, vocab_size).dim or 0


def _attributes(denoiser: Any) -> Iterator[str]:
    if not isinstance(denoiser, nn.Module):
        yield f"the denoiser is a {type(denoiser).__name__}; needed is a torch.nn.Module"
        return
    for name, least in (("positions", 1), ("vocab_size", 2)):
        value = getattr(denoiser, name, None)
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            yield f"denoiser.{name} is {value!r}; needed is an integer of at least {least}"
    if not isinstance(getattr(denoiser, "uses_time", None), bool):
        yield "denoiser.uses_time is missing; needed is True or False, whether the logits depend on t"


class _Questions:
    """States to ask a network about, and copies of it in eval mode."""

    name: str

    def __init__(self, network: nn.Module, positions: int, vocab_size: int) -> None:
        self.network, self.positions, self.vocab_size = network, positions, vocab_size
        self.generator = generator = torch.Generator().manual_seed(0)
        self.x0 = torch.randint(vocab_size, (ROWS, positions), generator=generator)
        masked = torch.rand(ROWS, positions, generator=generator) < 0.6
        masked[:, 0] = True  # something is masked in every row, and with two positions something is known in some
        masked[::2, 1:2] = False
        self.masked, self.xt = masked, self.x0.masked_fill(masked, vocab_size)
        self.t = torch.linspace(0.2, 1.0, ROWS)
        self.z: Tensor | None = None
        parameter = next(network.parameters(), None)
        self.device = torch.device("cpu") if parameter is None else parameter.device

    def moved(self) -> nn.Module:
        """A copy with every weight moved, as by a training: what starts at zero hides what it depends on."""
        network = copy.deepcopy(self.network).eval()
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.add_(0.1 * torch.randn(parameter.shape, generator=self.generator).to(parameter))
        return network

    def general(self) -> Iterator[str]:
        """What every network must be."""
        if next(self.network.parameters(), None) is None:
            yield f"{self.name} has no parameters: there is nothing to learn"
        trained = copy.deepcopy(self.network).train()
        before = {name: buffer.clone() for name, buffer in trained.named_buffers()}
        self.ask(trained)
        changed = [name for name, buffer in trained.named_buffers() if not buffer.equal(before[name])]
        if changed:
            yield (
                f"{self.name} keeps running statistics ({changed[0]}), which the averaged weights do not follow: take "
                "LayerNorm or GroupNorm"
            )

    def given(self, names: str, changed: dict[str, Tensor]) -> list[Tensor | None]:
        """Copies of the inputs: a network that writes into them should be noticed once."""
        values = [changed.get(name, getattr(self, name)) for name in names.split()]
        return [None if value is None else value.to(self.device, copy=True) for value in values]

    def ask(self, network: nn.Module, **changed: Tensor) -> Any:
        raise NotImplementedError


class _OfDenoiser(_Questions):
    name = "the denoiser"

    def __init__(self, denoiser: Any, latent_dim: int | None) -> None:
        super().__init__(denoiser, denoiser.positions, denoiser.vocab_size)
        self.uses_time = denoiser.uses_time
        self.z = None if latent_dim is None else torch.randn(ROWS, latent_dim, generator=self.generator)

    def ask(self, network: nn.Module, **changed: Tensor) -> Any:
        inputs = self.given("xt z t masked", changed)
        self.last_seen = cast(Tensor, inputs[0])
        with torch.no_grad():
            return network(*inputs)

    def findings(self) -> Findings:
        try:
            answer = self.ask(copy.deepcopy(self.network).eval())
        except Exception as error:  # a custom network may raise anything
            z = "None" if self.z is None else f"z {tuple(self.z.shape)}"
            return Findings((f"denoiser(xt {tuple(self.xt.shape)} in 0..V, {z}, t, where) raised {_line(error)}",))
        count = int(self.masked.sum())
        if not isinstance(answer, Tensor) or answer.shape != (count, self.vocab_size):
            shape = tuple(answer.shape) if isinstance(answer, Tensor) else type(answer).__name__
            problem = (
                f"the denoiser returned {shape} where {count} positions were asked for; needed are logits "
                f"({count}, {self.vocab_size}), for these positions only, without the mask: logits[where]"
            )
            return Findings((problem,))
        if not answer.is_floating_point() or not answer.isfinite().all():
            return Findings(("the denoiser's logits are not finite floating-point numbers",))
        return Findings((*self.general(), *self.problems()), tuple(self.notes()))

    def problems(self) -> Iterator[str]:
        network = self.moved()
        answer = self.ask(network)
        if not _equal(self.ask(network), answer):
            yield "the denoiser gives two answers to one question in eval mode: it must be deterministic there"
            return
        everywhere = self.ask(network, masked=torch.ones_like(self.masked)).view(ROWS, self.positions, self.vocab_size)
        if not _equal(everywhere[self.masked.to(self.device)], answer):
            yield (
                "the logits of some positions are not those that it gives when asked for all, in row-major order of "
                "`where` (example after example, in each from left to right): return logits[where]"
            )
        try:
            nothing = self.ask(network, masked=torch.zeros_like(self.masked))
            if nothing.shape != (0, self.vocab_size):
                yield f"asked for no position the denoiser returned {tuple(nothing.shape)}, not (0, {self.vocab_size})"
        except Exception as error:
            yield f"asked for no position the denoiser raised {_line(error)}; needed is (0, {self.vocab_size})"
        others, first = self.xt.clone(), int(self.masked[0].sum())
        others[1:] = self.vocab_size
        if not _equal(self.ask(network, xt=others)[:first], answer[:first]):
            yield "the logits of an example depend on the other examples of the batch"
        self.ask(network)
        if not self.last_seen.cpu().equal(self.xt):
            yield "the denoiser changes the tokens that it is given: take a copy first"
        if not self.uses_time and not _equal(self.ask(network, t=1 - 0.5 * self.t), answer):
            yield "denoiser.uses_time is False, but the logits depend on t"
        if self.z is not None and _equal(self.ask(network, z=self.z + 1), answer):
            yield "the logits do not depend on z: positions revealed together could not agree"

    def notes(self) -> Iterator[str]:
        network = self.moved()
        answer = self.ask(network)
        if self.uses_time and _equal(self.ask(network, t=1 - 0.5 * self.t), answer):
            yield "denoiser.uses_time is True, but the logits do not depend on t"
        shifted = torch.where(self.masked, self.xt, (self.x0 + 1) % self.vocab_size)
        if self.positions > 1 and _equal(self.ask(network, xt=shifted), answer):
            yield "the logits do not depend on the values that are known"


class _OfRecognizer(_Questions):
    name = "the recognition model"

    def ask(self, network: nn.Module, **changed: Tensor) -> Any:
        with torch.no_grad():
            return network(*self.given("x0 xt t", changed))

    @property
    def dim(self) -> int | None:
        """The length of z; None where it cannot be asked."""
        try:
            mean, _ = self.ask(copy.deepcopy(self.network).eval())
            return int(mean.shape[1])
        except Exception:  # reported by findings
            return None

    def findings(self, latent_dim: int | None) -> Findings:
        try:
            answer = self.ask(copy.deepcopy(self.network).eval())
        except Exception as error:
            return Findings((f"recognizer(x0, xt {tuple(self.xt.shape)} in 0..V, t) raised {_line(error)}",))
        pair = isinstance(answer, tuple | list) and len(answer) == 2 and all(isinstance(a, Tensor) for a in answer)
        shapes = [tuple(each.shape) for each in answer] if pair else type(answer).__name__
        if not pair or answer[0].ndim != 2 or len(answer[0]) != ROWS or answer[0].shape != answer[1].shape:
            needed = f"needed are mean and log_std, ({ROWS}, d) each"
            return Findings((f"the recognition model returned {shapes}; {needed}",))
        if latent_dim not in (None, answer[0].shape[1]):
            return Findings((f"the recognition model writes {answer[0].shape[1]} numbers, and z has {latent_dim}",))
        if not all(each.isfinite().all() for each in answer):
            return Findings(("the recognition model's answers are not finite",))
        return Findings((*self.general(), *self.problems()))

    def problems(self) -> Iterator[str]:
        network, others = self.moved(), (self.x0 + 1) % self.vocab_size

        def answer(x0: Tensor) -> Tensor:
            return torch.cat(self.ask(network, x0=x0), dim=1)

        first = answer(self.x0)
        if not _equal(answer(self.x0), first):
            yield "the recognition model gives two answers to one question in eval mode"
            return
        if _equal(answer(torch.where(self.masked, others, self.x0)), first):
            yield "the recognition model does not depend on the masked values of x0: z could say nothing about them"
        if not _equal(answer(torch.cat([self.x0[:1], others[1:]]))[:1], first[:1]):
            yield "what the recognition model says of an example depends on the other examples of the batch"


def _equal(one: Tensor, other: Tensor) -> bool:
    if one.shape != other.shape:
        return False
    scale = float(other.abs().max()) if other.numel() else 0.0
    return bool(torch.allclose(one, other, rtol=0, atol=TOLERANCE * max(scale, 1e-3)))


def _line(error: Exception) -> str:
    first = (str(error).strip().splitlines() or [""])[0]
    return f"{type(error).__name__}: {first}"
