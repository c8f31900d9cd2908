"""The method: schedule, masking, latent, model, objective, bounds and sampler.

Tensors only: no files, no configuration, no printing.
"""

from vadd.core.bounds import elbo, k_sample_delbo, step_bound
from vadd.core.gaussian import DiagonalGaussian
from vadd.core.health import LatentHealth, latent_health
from vadd.core.latent import Evidence, GaussianLatent, Latent, NoLatent, Particles, kl_warmup
from vadd.core.masking import (
    EvenWeights,
    ExactCount,
    IidTimes,
    MaskDraw,
    MaskedBatch,
    Masking,
    PartlyExplained,
    StratifiedTimes,
    apply_mask,
)
from vadd.core.model import MaskedDiffusion
from vadd.core.noise import Noise
from vadd.core.objective import Objective, objective
from vadd.core.sampler import Samples, sample
from vadd.core.schedule import CosineSchedule, LinearSchedule, PolynomialSchedule, Schedule
from vadd.core.strategies import (
    SAMPLERS,
    Ancestral,
    EntropyBounded,
    FirstHitting,
    Ordered,
    Parallel,
    Remask,
    Sampler,
    step_grid,
)
from vadd.core.values import ValueDraw

__all__ = [
    "SAMPLERS",
    "Ancestral",
    "CosineSchedule",
    "DiagonalGaussian",
    "EntropyBounded",
    "EvenWeights",
    "Evidence",
    "ExactCount",
    "FirstHitting",
    "GaussianLatent",
    "IidTimes",
    "Latent",
    "LatentHealth",
    "LinearSchedule",
    "MaskDraw",
    "MaskedBatch",
    "MaskedDiffusion",
    "Masking",
    "NoLatent",
    "Noise",
    "Objective",
    "Ordered",
    "Parallel",
    "Particles",
    "PartlyExplained",
    "PolynomialSchedule",
    "Remask",
    "Sampler",
    "Samples",
    "Schedule",
    "StratifiedTimes",
    "ValueDraw",
    "apply_mask",
    "elbo",
    "k_sample_delbo",
    "kl_warmup",
    "latent_health",
    "objective",
    "sample",
    "step_bound",
    "step_grid",
]
