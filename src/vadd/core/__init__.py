"""The method: schedule, masking, latent, model, objective, bounds and sampler.

Tensors only: no files, no configuration, no printing.
"""

from vadd.core.adaptive_samplers import EntropyBounded, Ordered, Remask
from vadd.core.base import Denoiser, Model, Objective, objective
from vadd.core.categorical import CodedLatent, LabelledLatent
from vadd.core.checking import Findings, check
from vadd.core.densities import DiagonalGaussian, FlowPrior, Prior, StandardNormal
from vadd.core.health import LatentHealth, latent_health
from vadd.core.latents import (
    Evidence,
    GaussianLatent,
    Latent,
    NoLatent,
    Particles,
    Recognizer,
    SharedLatent,
    kl_warmup,
)
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
from vadd.core.samplers import Ancestral, FirstHitting, InOrder, Parallel, PlannedSampler, Sampler, step_grid
from vadd.core.sampling import Drawing, Samples, TokenSampler, sample
from vadd.core.schedule import CosineSchedule, LinearSchedule, PolynomialSchedule, Schedule
