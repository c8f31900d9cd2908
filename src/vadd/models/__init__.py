"""The other systems, one file each: siblings of core's masked model."""

from vadd.models.ar import Autoregressive, LeftToRight
from vadd.models.edlm import EnergyDiffusion, EnergyOfAnother, EnergyWeighted, LearnedEnergy
from vadd.models.genmd4 import ValueRates, ValueSteps
from vadd.models.sedd import Analytic, Euler, ScoreEntropy
from vadd.models.uniform import UniformDiffusion, UniformSteps
