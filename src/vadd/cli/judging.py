"""What ``vadd eval``, ``vadd compare`` and ``vadd reproduce text`` share about judging: language models, and bounds."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, get_args

import typer

from vadd.cli.console import err_console
from vadd.cli.options import check_name, parse_steps
from vadd.errors import UserError

if TYPE_CHECKING:
    from vadd.core import Particles
    from vadd.evaluation import BoundSettings
    from vadd.evaluation.language_judge import LanguageJudge
    from vadd.progress import Progress
    from vadd.run.run import Run

HINT = (
    "no generative perplexity without a judge: add --judge with a causal language model, a folder of safetensors, a "
    ".gguf file or a name on the hub like gpt2-large"
)
PARTICLES, ZERO_SHOT_PARTICLES = 64, 8
ZERO_SHOT_STEPS, ZERO_SHOT_LIMIT = 32, 500
"""What minutes allow: T x K evaluations of the network for each sequence (T for a model without a latent)."""


class ConventionName(StrEnum):
    corpus = "corpus"
    sedd = "sedd"


@dataclass(frozen=True)
class JudgeOptions:
    """The language model that judges texts."""

    judge: Annotated[
        str | None,
        typer.Option(
            "--judge",
            help="Texts: also their generative perplexity under this causal language model, a folder, a .gguf file or "
            "a name on the hub.",
            show_default=False,
            metavar="MODEL",
        ),
    ] = None
    convention: Annotated[
        ConventionName,
        typer.Option(
            "--convention", help="Generative perplexity of all texts together, or the mean of each text's own."
        ),
    ] = ConventionName.corpus

    def open(self, runs: "Sequence[Run]", progress: "Progress") -> "LanguageJudge | None":
        """The judge for these runs, or how to get one where they are all text and none was named."""
        if self.judge is None:
            if all(run.tokenizer is not None for run in runs):
                err_console.print(HINT, soft_wrap=True)
            return None
        for run in runs:  # before the judge is loaded, which takes long
            if run.tokenizer is None:
                raise UserError(f"--judge is for runs on text; {run.directory.path} is not one")
        from vadd.evaluation.language_judge import LanguageJudge
        from vadd.parallel import default_device

        return LanguageJudge.open(self.judge, self.convention.value, device=default_device(), progress=progress)


@dataclass(frozen=True)
class BoundOptions:
    """Bounds of the likelihood."""

    bound: Annotated[
        str | None, typer.Option(help="Bound the likelihood of held-out examples, for the sampler with so many steps.")
    ] = None
    particles: Annotated[
        int | None,
        typer.Option(
            help=f"Latents drawn for each likelihood estimate. [default: {PARTICLES}; with --zero-shot "
            f"{ZERO_SHOT_PARTICLES}]"
        ),
    ] = None
    proposals: Annotated[
        str,
        typer.Option(
            help="Where the particles come from; any choice is valid, some are tighter. auto: try on training examples."
        ),
    ] = "recognition,revealed,prior"
    delbo: Annotated[
        bool, typer.Option("--delbo", help="Also the paper's DELBO, which is not a likelihood bound (MDLM: the ELBO).")
    ] = False
    delbo_particles: Annotated[
        str | None,
        typer.Option(help="The same with so many latents each, as in the paper's ablation.", metavar="K,K,..."),
    ] = None
    draws: Annotated[int, typer.Option(min=1, help="Masks drawn for each example in the DELBO or ELBO.")] = 20
    limit: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Judge by the first so many held-out examples. [default: all; with --zero-shot "
            f"{ZERO_SHOT_LIMIT} of each corpus]",
        ),
    ] = None
    score_pads: Annotated[
        bool, typer.Option("--score-pads", help="Score pads too: a valid bound for padded text, but not the custom.")
    ] = False
    given_label: Annotated[
        bool, typer.Option("--given-label", help="Bound the likelihood of each held-out example given its label.")
    ] = False
    grid: Annotated[
        str | None, typer.Option(help="Step grid of the bound, uniform or cosine. [default: the recipe's]")
    ] = None

    @property
    def asked(self) -> bool:
        return self.bound is not None or self.delbo or self.delbo_particles is not None

    def settings(self, *, zero_shot: bool) -> "BoundSettings":
        """``zero_shot`` judges many sequences, so that less is done for each of them."""
        steps = [ZERO_SHOT_STEPS if zero_shot else 1] if self.bound is None else parse_steps(self.bound, "--bound")
        counts = [] if self.delbo_particles is None else parse_steps(self.delbo_particles, "--delbo-particles")
        if self.grid is not None:
            from vadd.recipe import Sampling

            check_name("step grid", self.grid, get_args(Sampling.model_fields["grid"].annotation))
        from vadd.evaluation import BoundSettings

        return BoundSettings(
            self._particles(ZERO_SHOT_PARTICLES if zero_shot else PARTICLES),
            steps=steps,
            delbo_draws=self.draws if self.delbo or counts or zero_shot else 0,
            delbo_particles=counts,
            limit=ZERO_SHOT_LIMIT if zero_shot and self.limit is None else self.limit,
            score_pads=self.score_pads,
            given_label=self.given_label,
            choose_proposals=self.proposals == "auto",
            grid=self.grid,  # type: ignore[arg-type]  # checked above
        )

    def _particles(self, default: int) -> "Particles":
        from vadd.core import Particles

        count = default if self.particles is None else self.particles
        if self.proposals == "auto":
            return Particles(count)
        return Particles(count, tuple(self.proposals.split(",")))  # type: ignore[arg-type]  # checked on construction
