"""The other systems, one file each; they answer to the same calls as core's model."""

from vadd.models.ar import Autoregressive
from vadd.models.edlm import EnergyDiffusion, EnergyOfAnother, EnergyWeighted, LearnedEnergy
from vadd.models.genmd4 import ValueRates, ValueSteps
from vadd.models.sedd import ScoreEntropy
from vadd.models.transitions import Analytic, Euler, UniformSteps
from vadd.models.uniform import UniformDiffusion

__all__ = [
    "Analytic",
    "Autoregressive",
    "EnergyDiffusion",
    "EnergyOfAnother",
    "EnergyWeighted",
    "Euler",
    "LearnedEnergy",
    "ScoreEntropy",
    "UniformDiffusion",
    "UniformSteps",
    "ValueRates",
    "ValueSteps",
]
