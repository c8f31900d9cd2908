"""Whether a custom network satisfies the protocol that training, sampling and bounds rely on, and what is wrong if not.

A denoiser that answers in the wrong order, or lets one example influence another, trains without complaint and bounds
nothing. So it is asked a few questions to which the answers are known.
"""

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

ROWS = 5
TOLERANCE = 1e-4
"""Of equal answers, over their largest entry: sums in another order differ by less."""


@dataclass(frozen=True)
class Findings:
    """The result of :func:`vadd.check`: ``problems`` of the networks, and ``notes`` on what may be intended."""

    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.problems

    def __repr__(self) -> str:
        lines = [f"problem: {line}" for line in self.problems] + [f"note: {line}" for line in self.notes]
        return "\n".join(["ok" if self.ok else f"{len(self.problems)} of the protocol's rules broken", *lines])


def check(denoiser: Any, recognizer: Any = None, *, latent_dim: int | None = None) -> Findings:
    """Test custom networks before they are trained.

    ``latent_dim`` is the length of z; by default it is what the recognition model returns. Without either, the denoiser
    is tested for a model without a latent, with z = None. The networks do not change.

    >>> from vadd.networks import MlpDenoiser, MlpSettings, SiameseMlpRecognizer
    >>> denoiser = MlpDenoiser(3, 4, MlpSettings(width=8), latent_dim=2)
    >>> check(denoiser, SiameseMlpRecognizer(3, 4, MlpSettings(width=8), latent_dim=2))
    ok
    """
    if problems := list(_attributes(denoiser, recognizer)):
        return Findings(tuple(problems))
    positions, vocab_size = denoiser.positions, denoiser.vocab_size
    if recognizer is not None:
        problems += _problems_of_recognizer(_Questions(recognizer, positions, vocab_size), latent_dim)
        latent_dim = latent_dim or latent_size(recognizer, positions, vocab_size)
        if not latent_dim:  # it could not be asked
            return Findings(tuple(problems))
    asked = _Questions(denoiser, positions, vocab_size, latent_dim)
    first = list(_problems_of_logits(asked))
    notes = () if first else tuple(_notes(asked))
    return Findings((*problems, *(first or _problems_of_denoiser(asked))), notes)


def latent_size(recognizer: nn.Module | None, positions: int, vocab_size: int) -> int:
    """The length of the z of a recognition model that satisfies its protocol; 0 without one."""
    if recognizer is None:
        return 0
    try:
        return int(_Questions(recognizer, positions, vocab_size).at_first("x0 xt t")[0].shape[1])
    except Exception:  # a custom network may raise anything; _problems_of_recognizer reports it
        return 0


def _attributes(denoiser: Any, recognizer: Any) -> Iterator[str]:
    for name, network in {"denoiser": denoiser, "recognition model": recognizer or nn.Identity()}.items():
        if not isinstance(network, nn.Module):
            yield f"the {name} is a {type(network).__name__}; needed is a torch.nn.Module"
            return
    for name, least in (("positions", 1), ("vocab_size", 2)):
        value = getattr(denoiser, name, None)
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            yield f"denoiser.{name} is {value!r}; needed is an integer of at least {least}"
    if not isinstance(getattr(denoiser, "uses_time", None), bool):
        yield "denoiser.uses_time is missing; needed is True or False, whether the logits depend on t"


class _Questions:
    """States to ask a network about, and a copy of it in eval mode with every weight moved, as by a training: what
    starts at zero hides what it depends on.
    """

    def __init__(self, network: nn.Module, positions: int, vocab_size: int, latent_dim: int | None = None) -> None:
        self.network, self.positions, self.vocab_size = network, positions, vocab_size
        generator = torch.Generator().manual_seed(0)
        self.x0 = torch.randint(vocab_size, (ROWS, positions), generator=generator)
        masked = torch.rand(ROWS, positions, generator=generator) < 0.6
        masked[:, 0] = True  # something is masked in every row, and with two positions something is known in some
        masked[::2, 1:2] = False
        self.masked, self.xt = masked, self.x0.masked_fill(masked, vocab_size)
        self.t = torch.linspace(0.2, 1.0, ROWS)
        self.z = None if latent_dim is None else torch.randn(ROWS, latent_dim, generator=generator)
        self.device = next((parameter.device for parameter in network.parameters()), torch.device("cpu"))
        self.moved = copy.deepcopy(network).eval()
        for parameter in self.moved.parameters():
            parameter.data += 0.1 * torch.randn(parameter.shape, generator=generator).to(parameter)

    @torch.no_grad()
    def ask(self, names: str, network: nn.Module | None = None, **changed: Tensor) -> Any:
        values = [changed.get(name, getattr(self, name)) for name in names.split()]
        # Copies: a network that writes into its inputs should be noticed once.
        self.given: list[Any] = [None if value is None else value.to(self.device, copy=True) for value in values]
        return (network or self.moved)(*self.given)

    def at_first(self, names: str) -> Any:
        """The answer of the network as it is."""
        return self.ask(names, copy.deepcopy(self.network).eval())

    def statistics(self, name: str, names: str) -> Iterator[str]:
        if next(self.network.parameters(), None) is None:
            yield f"{name} has no parameters: there is nothing to learn"
        trained = copy.deepcopy(self.network).train()
        before = {key: buffer.clone() for key, buffer in trained.named_buffers()}
        self.ask(names, trained)
        if changed := [key for key, buffer in trained.named_buffers() if not buffer.equal(before[key])]:
            yield (
                f"{name} keeps running statistics ({changed[0]}), which the averaged weights do not follow: take "
                "LayerNorm or GroupNorm"
            )


INPUTS = "xt z t masked"
"""Of a denoiser."""


def _problems_of_logits(asked: _Questions) -> Iterator[str]:
    """What keeps the denoiser from being asked any further."""
    count, values = int(asked.masked.sum()), asked.vocab_size
    try:
        answer = asked.at_first(INPUTS)
    except Exception as error:
        z = "None" if asked.z is None else f"z {tuple(asked.z.shape)}"
        yield f"denoiser(xt {tuple(asked.xt.shape)} in 0..V, {z}, t, where) raised {_line(error)}"
        return
    if not isinstance(answer, Tensor) or answer.shape != (count, values):
        shape = tuple(answer.shape) if isinstance(answer, Tensor) else type(answer).__name__
        yield (
            f"the denoiser returned {shape} where {count} positions were asked for; needed are logits "
            f"({count}, {values}), for these positions only, without the mask: logits[where]"
        )
    elif not answer.is_floating_point() or not answer.isfinite().all():
        yield "the denoiser's logits are not finite floating-point numbers"


def _problems_of_denoiser(asked: _Questions) -> Iterator[str]:
    yield from asked.statistics("the denoiser", INPUTS)
    answer, values = asked.ask(INPUTS), asked.vocab_size
    if not asked.given[0].cpu().equal(asked.xt):
        yield "the denoiser changes the tokens that it is given: take a copy first"
    if not _equal(asked.ask(INPUTS), answer):
        yield "the denoiser gives two answers to one question in eval mode: it must be deterministic there"
        return
    everywhere = asked.ask(INPUTS, masked=torch.ones_like(asked.masked)).view(ROWS, asked.positions, values)
    if not _equal(everywhere[asked.masked.to(asked.device)], answer):
        yield (
            "the logits of some positions are not those that it gives when asked for all, in row-major order of "
            "`where` (example after example, in each from left to right): return logits[where]"
        )
    try:
        nothing = asked.ask(INPUTS, masked=torch.zeros_like(asked.masked))
        if nothing.shape != (0, values):
            yield f"asked for no position the denoiser returned {tuple(nothing.shape)}, not (0, {values})"
    except Exception as error:
        yield f"asked for no position the denoiser raised {_line(error)}; needed is (0, {values})"
    others, first = asked.xt.clone(), int(asked.masked[0].sum())
    others[1:] = values
    if not _equal(asked.ask(INPUTS, xt=others)[:first], answer[:first]):
        yield "the logits of an example depend on the other examples of the batch"
    if not asked.network.uses_time and not _equal(asked.ask(INPUTS, t=1 - 0.5 * asked.t), answer):
        yield "denoiser.uses_time is False, but the logits depend on t"
    if asked.z is not None and _equal(asked.ask(INPUTS, z=asked.z + 1), answer):
        yield "the logits do not depend on z: positions revealed together could not agree"


def _notes(asked: _Questions) -> Iterator[str]:
    answer = asked.ask(INPUTS)
    if asked.network.uses_time and _equal(asked.ask(INPUTS, t=1 - 0.5 * asked.t), answer):
        yield "denoiser.uses_time is True, but the logits do not depend on t"
    shifted = torch.where(asked.masked, asked.xt, (asked.x0 + 1) % asked.vocab_size)
    if asked.positions > 1 and _equal(asked.ask(INPUTS, xt=shifted), answer):
        yield "the logits do not depend on the values that are known"


def _problems_of_recognizer(asked: _Questions, latent_dim: int | None) -> Iterator[str]:
    try:
        answer = asked.at_first("x0 xt t")
    except Exception as error:
        yield f"recognizer(x0, xt {tuple(asked.xt.shape)} in 0..V, t) raised {_line(error)}"
        return
    pair = isinstance(answer, tuple | list) and len(answer) == 2 and all(isinstance(a, Tensor) for a in answer)
    shapes = [tuple(each.shape) for each in answer] if pair else type(answer).__name__
    if not pair or answer[0].ndim != 2 or len(answer[0]) != ROWS or answer[0].shape != answer[1].shape:
        yield f"the recognition model returned {shapes}; needed are mean and log_std, ({ROWS}, d) each"
    elif latent_dim not in (None, answer[0].shape[1]):
        yield f"the recognition model writes {answer[0].shape[1]} numbers, and z has {latent_dim}"
    elif not all(each.isfinite().all() for each in answer):
        yield "the recognition model's answers are not finite"
    else:
        yield from asked.statistics("the recognition model", "x0 xt t")
        others = (asked.x0 + 1) % asked.vocab_size

        def answer_to(x0: Tensor) -> Tensor:
            return torch.cat(asked.ask("x0 xt t", x0=x0), dim=1)

        first = answer_to(asked.x0)
        if not _equal(answer_to(asked.x0), first):
            yield "the recognition model gives two answers to one question in eval mode"
            return
        if _equal(answer_to(torch.where(asked.masked, others, asked.x0)), first):
            yield "the recognition model does not depend on the masked values of x0: z could say nothing about them"
        if not _equal(answer_to(torch.cat([asked.x0[:1], others[1:]]))[:1], first[:1]):
            yield "what the recognition model says of an example depends on the other examples of the batch"


def _equal(one: Tensor, other: Tensor) -> bool:
    if one.shape != other.shape:
        return False
    scale = float(other.abs().max()) if other.numel() else 0.0
    return bool(torch.allclose(one, other, rtol=0, atol=TOLERANCE * max(scale, 1e-3)))


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {next(iter(str(error).strip().splitlines()), '')}"
