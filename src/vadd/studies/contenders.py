"""What `vadd reproduce baselines` asks of a model, be it a run or the continuous one of diffusers."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol

from vadd.core import Samples
from vadd.evaluation import BoundSettings
from vadd.evaluation.judge import Judge
from vadd.evaluation.judges import choose_judge, judge_of_data
from vadd.evaluation.language_judge import LanguageJudge
from vadd.evaluation.likelihood import measure_bounds
from vadd.evaluation.reports import NegativeLogLikelihood
from vadd.generation.options import possible_steps
from vadd.progress import Progress
from vadd.runs.run import Run
from vadd.studies.ddpm import LEVELS, Ddpm, weights_of


class Contender(Protocol):
    """A trained model."""

    @property
    def model(self) -> str:
        """As recipes name it."""

    @property
    def parameters(self) -> int:
        """Of all its networks."""

    @property
    def training_steps(self) -> int: ...

    @property
    def exact(self) -> bool:
        """Whether samples follow the model's own distribution."""

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


@dataclass(frozen=True)
class RunContender:
    run: Run
    wanted: Sequence[int]

    @property
    def model(self) -> str:
        return self.run.recipe.model

    @property
    def parameters(self) -> int:
        return weights_of(self.run.model)

    @property
    def training_steps(self) -> int:
        return self.run.recipe.training.steps

    @property
    def exact(self) -> bool:
        return self.run.model.ancestral.exact

    @property
    def steps(self) -> list[int]:
        return possible_steps(self.run.model, self.run.recipe.sampling, self.wanted)

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

    @property
    def parameters(self) -> int:
        return weights_of(self.trained.network)

    @property
    def training_steps(self) -> int:
        return self.trained.training_steps

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
