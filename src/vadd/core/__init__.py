"""The method: schedule, masking, latent, model, objective, bounds and sampler.

Tensors only: no files, no configuration, no printing.
"""

from vadd.core.base import Denoiser, Model, Objective, objective
from vadd.core.categorical import CodedLatent, LabelledLatent
from vadd.core.checking import Findings, check
from vadd.core.gaussian import DiagonalGaussian, GaussianLatent, Particles, Prior, StandardNormal
from vadd.core.health import LatentHealth, latent_health
from vadd.core.host import Noise
from vadd.core.latents import Evidence, Latent, NoLatent, Recognizer, kl_warmup
from vadd.core.masking import (
    CosineSchedule,
    EvenWeights,
    ExactCount,
    IidTimes,
    Levels,
    LinearSchedule,
    MaskDraw,
    MaskedBatch,
    Masking,
    PolynomialSchedule,
    Schedule,
    StepTimes,
    StratifiedTimes,
)
from vadd.core.model import MaskedDiffusion, elbo, k_sample_delbo, step_bound
from vadd.core.samplers import EntropyBounded, FirstHitting, InOrder, Ordered, Parallel, Remask
from vadd.core.sampling import Ancestral, Drawing, PlannedSampler, Sampler, Samples, TokenSampler, sample, step_grid
from vadd.core.shared import FlowPrior, SharedLatent
