"""What `vadd reproduce baselines` asks of a model, be it a run or the continuous one of diffusers."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol

from torch import Tensor

from vadd.core import Samples
from vadd.evaluation import BoundSettings
from vadd.evaluation.judge import Judge
from vadd.evaluation.judges import choose_judge, judge_of_data
from vadd.evaluation.language_judge import LanguageJudge
from vadd.evaluation.likelihood import measure_bounds
from vadd.evaluation.reports import NegativeLogLikelihood
from vadd.progress import Progress
from vadd.recipe import MODELS
from vadd.run.directory import MANIFEST, PRIORS
from vadd.run.run import Run
from vadd.studies.ddpm import LEVELS, Ddpm, weights_of
from vadd.studies.equal_time import processor_seconds


class Contender(Protocol):
    """A trained model."""

    @property
    def model(self) -> str:
        """As recipes name it."""

    @property
    def weights(self) -> str:
        """A checksum of all that was trained."""

    @property
    def parameters(self) -> int:
        """Of all its networks."""

    @property
    def training_steps(self) -> int: ...

    @property
    def training_seconds(self) -> float | None:
        """What its training took, of processor time."""

    @property
    def exact(self) -> bool:
        """Whether samples follow the model's own distribution."""

    @property
    def costly(self) -> bool:
        """Whether a sample takes many times as long as that of a masked model in a few steps."""

    @property
    def proposal(self) -> str | None:
        """The contender whose bounds stand for its own, by name."""

    @property
    def held_out(self) -> Tensor:
        """Examples that it has not learned from, (n, N)."""

    @property
    def steps(self) -> list[int]:
        """The numbers of sampling steps to show: of those that are wanted the ones that it can take, or its own."""

    def draw(self, count: int, steps: int, progress: Progress) -> list[Samples]:
        """With the seed 0, chunk by chunk."""

    def bound(self, settings: BoundSettings, progress: Progress) -> NegativeLogLikelihood | None:
        """Of held-out examples; None for a model that has none to show."""

    def judge(self, samples: int, inception: Path | None, language: LanguageJudge | None, progress: Progress) -> Judge:
        """What compares samples with the data that it learned."""

    def judged_by(self, judge: Judge) -> Judge:
        """That of another contender, for this one."""


def checksum_of(checkpoint: Path) -> str:
    """Of the weights in a checkpoint and the priors beside them, by what is written there of them."""
    found = hashlib.sha256()
    for name in (MANIFEST, PRIORS):
        if (file := checkpoint / name).is_file():
            found.update(file.read_bytes())
    return found.hexdigest()


@dataclass(frozen=True)
class RunContender:
    run: Run
    wanted: Sequence[int]
    proposal: str | None = None
    energy: Run | None = None
    """What weighs its samples, if anything does."""

    @property
    def model(self) -> str:
        return self.run.recipe.model

    @property
    def weights(self) -> str:
        runs = [self.run, *([] if self.energy is None else [self.energy])]
        return " ".join(checksum_of(run.directory.checkpoint(run.step or 0)) for run in runs)

    @property
    def parameters(self) -> int:
        return weights_of(self.run.model)

    @property
    def training_steps(self) -> int:
        return self.run.recipe.training.steps

    @property
    def training_seconds(self) -> float | None:
        return processor_seconds(self.run.directory.path)

    @property
    def exact(self) -> bool:
        return self.run.model.ancestral.exact

    @property
    def costly(self) -> bool:
        return not self.exact or not MODELS[self.run.recipe.model].chosen_steps

    @property
    def held_out(self) -> Tensor:
        return self.run.data.test

    @property
    def steps(self) -> list[int]:
        return self.run.possible_steps(self.wanted)

    def draw(self, count: int, steps: int, progress: Progress) -> list[Samples]:
        return list(self.run.stream(count, steps=steps, seed=0, progress=progress))

    def bound(self, settings: BoundSettings, progress: Progress) -> NegativeLogLikelihood:
        return measure_bounds(self.run, self.run.data.test, settings, progress).bounds[0]

    def judge(self, samples: int, inception: Path | None, language: LanguageJudge | None, progress: Progress) -> Judge:
        return choose_judge(self.run, samples, 0, inception, progress, language)

    def judged_by(self, judge: Judge) -> Judge:
        return judge.beside(self.run)


@dataclass(frozen=True)
class DdpmContender:
    trained: Ddpm
    wanted: Sequence[int]
    model: ClassVar[str] = "ddpm"
    exact: ClassVar[bool] = False
    costly: ClassVar[bool] = False
    proposal: ClassVar[None] = None

    @property
    def weights(self) -> str:
        return checksum_of(self.trained.place)

    @property
    def parameters(self) -> int:
        return weights_of(self.trained.network)

    @property
    def training_steps(self) -> int:
        return self.trained.training_steps

    @property
    def training_seconds(self) -> float:
        return self.trained.training_seconds

    @property
    def held_out(self) -> Tensor:
        return self.trained.data.test

    @property
    def steps(self) -> list[int]:
        return [steps for steps in self.wanted if steps <= LEVELS] or [LEVELS]

    def draw(self, count: int, steps: int, progress: Progress) -> list[Samples]:
        return [self.trained.sample(count, steps, seed=0, progress=progress)]

    def bound(self, settings: BoundSettings, progress: Progress) -> None:
        """A density of continuous images is not comparable with probabilities of discrete ones."""

    def judge(self, samples: int, inception: Path | None, language: LanguageJudge | None, progress: Progress) -> Judge:
        return judge_of_data(self.trained.data, samples, 0, inception, progress)

    def judged_by(self, judge: Judge) -> Judge:
        return judge
