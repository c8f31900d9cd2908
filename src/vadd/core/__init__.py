"""The method: schedule, masking, latent, model, objective, bounds and sampler.

Tensors only: no files, no configuration, no printing.
"""

from vadd.core.base import Denoiser, Model, Objective, objective
from vadd.core.categorical import CodedLatent, LabelledLatent
from vadd.core.checking import Findings, check
from vadd.core.densities import DiagonalGaussian, Particles
from vadd.core.gaussian import FlowPrior, GaussianLatent, Prior, SharedLatent, StandardNormal
from vadd.core.health import LatentHealth, latent_health
from vadd.core.latents import Evidence, Latent, NoLatent, Recognizer, kl_warmup
from vadd.core.masking import (
    EvenWeights,
    ExactCount,
    IidTimes,
    Levels,
    MaskDraw,
    MaskedBatch,
    Masking,
    StepTimes,
    StratifiedTimes,
)
from vadd.core.model import MaskedDiffusion, elbo, k_sample_delbo, step_bound
from vadd.core.randomness import Noise
from vadd.core.samplers import EntropyBounded, FirstHitting, InOrder, Ordered, Parallel, Remask
from vadd.core.sampling import Ancestral, Drawing, PlannedSampler, Sampler, Samples, sample, step_grid
from vadd.core.schedule import CosineSchedule, LinearSchedule, PolynomialSchedule, Schedule
from vadd.core.token_sampler import TokenSampler
