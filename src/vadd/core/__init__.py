"""The method: schedule, masking, latent, model, objective and sampler. Tensors only; no files, no configuration,
no printing.
"""

from vadd.core.latent import DiagonalGaussian, Evidence, GaussianLatent, Latent, NoLatent, kl_warmup
from vadd.core.masking import ExactCount, IidTimes, MaskDraw, MaskedBatch, Masking, StratifiedTimes, apply_mask
from vadd.core.model import MaskedDiffusion
from vadd.core.objective import Objective, objective
from vadd.core.sampler import Samples, sample, step_grid
from vadd.core.schedule import CosineSchedule, LinearSchedule, PolynomialSchedule, Schedule

__all__ = [
    "CosineSchedule",
    "DiagonalGaussian",
    "Evidence",
    "ExactCount",
    "GaussianLatent",
    "IidTimes",
    "Latent",
    "LinearSchedule",
    "MaskDraw",
    "MaskedBatch",
    "MaskedDiffusion",
    "Masking",
    "NoLatent",
    "Objective",
    "PolynomialSchedule",
    "Samples",
    "Schedule",
    "StratifiedTimes",
    "apply_mask",
    "kl_warmup",
    "objective",
    "sample",
    "step_grid",
]
