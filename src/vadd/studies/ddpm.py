r"""DDPM: images as continuous numbers, by the networks and schedulers of diffusers, beside the discrete models.

The values 0..V-1 become numbers in [-1, 1], a UNet learns to predict the Gaussian noise in them at 1000 levels, and
what it draws is rounded to the nearest value. With as many steps as levels it samples as DDPM does, with fewer as DDIM.
There is no likelihood to report: its bound is a density of continuous images, which is not comparable with a
probability of discrete ones.

Needs the extra ``ddpm``. A training is a folder with ``ddpm.json`` and a checkpoint as those of runs.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vadd.core.host import MASKS, SAMPLING, ShuffledBatches, step_generator
from vadd.core.sampling import Samples
from vadd.data import DiscreteDataset
from vadd.errors import UserError
from vadd.files import write_json
from vadd.parallel import Processes
from vadd.parsing import read_json
from vadd.progress import Progress
from vadd.recipe import Recipe, build_dataset, build_model
from vadd.run.checkpoint import TrainingState, read_weights, write_checkpoint
from vadd.studies.equal_time import steps_in, timed
from vadd.training.optimizer import Ema, Stepper

LEVELS = 1000
"""Of the noise, in training."""
BATCH = 64
"""At most: a UNet takes long for an image, and small batches learn more in little time."""
MOST_WEIGHTS = 500_000
"""Beside a network that is no UNet, at most: a convolution uses each weight at every pixel, a perceptron once."""
CHANNEL_STEP = 4
"""The UNet's channels are a multiple of it; also its groups of channels that are normalised together."""
ROWS_AT_ONCE = 256
DESCRIPTION, CHECKPOINT = "ddpm.json", "checkpoint"


def check_installed() -> None:
    if find_spec("diffusers") is None:
        raise UserError("DDPM needs the package diffusers: pip install 'vadd[ddpm]'")


def build_unet(shape: Sequence[int], channels: int) -> nn.Module:
    """For images of (height, width, planes): halved down to 8 pixels or less, attention at the smallest size only."""
    from diffusers import UNet2DModel

    height, width, planes = shape
    sizes = 2
    while min(height, width) >> (sizes - 1) > 8:
        sizes += 1
    if height % 2 ** (sizes - 1) or width % 2 ** (sizes - 1):
        raise UserError(f"a UNet halves images {sizes - 1} times; {height} x {width} pixels cannot be")
    network: nn.Module = UNet2DModel(
        sample_size=(height, width),
        in_channels=planes,
        out_channels=planes,
        layers_per_block=1,
        block_out_channels=tuple(channels * 2**level for level in range(sizes)),
        down_block_types=("DownBlock2D",) * (sizes - 1) + ("AttnDownBlock2D",),
        up_block_types=("AttnUpBlock2D",) + ("UpBlock2D",) * (sizes - 1),
        norm_num_groups=CHANNEL_STEP,
        attention_head_dim=CHANNEL_STEP * 2 ** (sizes - 1),
    )
    return network


def weights_of(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


def channels_for(shape: Sequence[int], wanted: int) -> int:
    """So that the UNet's number of weights is nearest to the one that is ``wanted``."""

    def off(channels: int) -> int:
        with torch.device("meta"):
            return abs(weights_of(build_unet(shape, channels)) - wanted)

    channels = CHANNEL_STEP
    while off(channels + CHANNEL_STEP) < off(channels):
        channels += CHANNEL_STEP
    return channels


def wanted_weights(recipe: Recipe, data: DiscreteDataset) -> int:
    """As many as the recipe's denoiser has without a latent, see :data:`MOST_WEIGHTS`."""
    with torch.device("meta"):
        count = weights_of(build_model(recipe.with_overrides(["model=mdlm"]), data.kind))
    return count if recipe.network.kind == "unet" else min(count, MOST_WEIGHTS)


def to_numbers(tokens: Tensor, data: DiscreteDataset) -> Tensor:
    """(n, N) values -> (n, planes, height, width) in [-1, 1]."""
    images = tokens.view(-1, *data.shape).movedim(-1, 1).float()
    return images * (2 / (data.vocab_size - 1)) - 1


def to_values(images: Tensor, data: DiscreteDataset) -> Tensor:
    """The nearest values, (n, N) int64."""
    spread = (images.clamp(-1, 1) + 1) * ((data.vocab_size - 1) / 2)
    return spread.round().long().movedim(1, -1).flatten(1).cpu()


@dataclass(frozen=True)
class Ddpm:
    """A trained UNet, and how it is sampled."""

    network: nn.Module
    data: DiscreteDataset
    training_steps: int
    training_seconds: float
    """Of processor time."""
    place: Path
    """Its checkpoint."""

    def possible_steps(self, wanted: Sequence[int]) -> list[int]:
        return [steps for steps in wanted if steps <= LEVELS] or [LEVELS]

    @torch.no_grad()
    def stream(self, count: int, *, steps: int, seed: int, progress: Progress) -> Iterator[Samples]:
        """``count`` images as values of the data, chunk by chunk, in ``steps`` evaluations of the network; each has
        random numbers of its own, so that the first of them do not depend on how many are drawn.
        """
        from diffusers import DDIMScheduler, DDPMScheduler

        height, width, planes = self.data.shape
        device = next(self.network.parameters()).device
        # Trailing: the first step is at the last level, which is nothing but noise, also where it is the only one.
        ddim = DDIMScheduler(num_train_timesteps=LEVELS, timestep_spacing="trailing")
        scheduler: Any = DDPMScheduler(num_train_timesteps=LEVELS) if steps == LEVELS else ddim
        for first in range(0, count, ROWS_AT_ONCE):
            rows = range(first, min(first + ROWS_AT_ONCE, count))
            generators = [step_generator(seed, SAMPLING, row) for row in rows]
            x = torch.stack([torch.randn(planes, height, width, generator=each) for each in generators]).to(device)
            scheduler.set_timesteps(steps)
            for number, level in enumerate(scheduler.timesteps):
                progress(f"sampling in {steps} steps", first * steps + number * len(rows), count * steps)
                x = scheduler.step(self.network(x, level).sample, level, x, generator=generators).prev_sample
            yield Samples(to_values(x, self.data), evaluations=steps, sequences=len(rows) * steps)


class DdpmTrainer:
    """One step after the other, each a function of the seed and its number."""

    def __init__(self, recipe: Recipe, data: DiscreteDataset, channels: int) -> None:
        from diffusers import DDPMScheduler

        self.recipe, self.data = recipe, data
        processes = Processes()
        self.device = processes.device
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(recipe.seed)
            self.network = build_unet(data.shape, channels).to(self.device)
        self.batch = min(recipe.training.batch, BATCH)
        self.batches = ShuffledBatches(len(data.train), self.batch, recipe.seed)
        self.noising = DDPMScheduler(num_train_timesteps=LEVELS)
        self.ema = Ema(self.network, recipe.training.ema)
        self.stepper = Stepper(self.network, recipe.training, processes)

    def step(self, step: int) -> None:
        """Predict the noise in images that are noised at random levels."""
        generator = step_generator(self.recipe.seed, MASKS, step)
        x0 = to_numbers(self.data.train[self.batches[step]], self.data)
        noise = torch.randn(x0.shape, generator=generator)
        levels = torch.randint(LEVELS, (len(x0),), generator=generator)
        noised = self.noising.add_noise(x0, noise, levels)
        self.stepper.zero_grad()
        predicted = self.network(noised.to(self.device), levels.to(self.device)).sample
        loss = F.mse_loss(predicted, noise.to(self.device))
        loss.backward()  # type: ignore[no-untyped-call]
        self.ema.update(step, self.stepper.step(step, loss.detach()))


def ddpm_trained_for(recipe: Recipe, seconds: float, path: Path, progress: Progress) -> Ddpm:
    """The training in ``path``, made if it is not there; one that was interrupted begins anew."""
    data = build_dataset(recipe)
    settings: dict[str, Any] = {
        "seed": recipe.seed,
        "data": recipe.data.model_dump(mode="json"),
        "data_sha256": data.fingerprint(),
        "training": recipe.training.model_dump(mode="json", exclude={"steps"}),
        "levels": LEVELS,
    }
    if not (path / CHECKPOINT).is_dir():
        channels = channels_for(data.shape, wanted_weights(recipe, data))
        progress(f"how fast {recipe.name} ddpm is")
        steps = steps_in(DdpmTrainer(recipe, data, channels).step, seconds)
        trainer = DdpmTrainer(recipe.with_values(timed(steps).items()), data, channels)
        began = time.process_time()
        for step in range(steps):
            trainer.step(step)
            progress(f"training {recipe.name} ddpm, {weights_of(trainer.network):,} parameters", step + 1, steps)
        spent = time.process_time() - began
        weights = trainer.network.state_dict(), trainer.ema.averaged.state_dict()
        write_json(path / DESCRIPTION, {**settings, "channels": channels, "steps": steps, "seconds": spent})
        write_checkpoint(path / CHECKPOINT, TrainingState(steps, *weights, dict(trainer.stepper.tensors())))
    try:
        known = dict(read_json(path / DESCRIPTION))
        channels, steps, spent = int(known["channels"]), int(known["steps"]), float(known["seconds"])
    except (OSError, ValueError, KeyError, TypeError):
        raise UserError(f"{path / DESCRIPTION} is damaged; remove {path} to train anew") from None
    for key, value in settings.items():
        if known.get(key) != value:
            raise UserError(f"{path} was trained with another {key}; choose another --out")
    network = build_unet(data.shape, channels).to(Processes().device)
    network.load_state_dict(read_weights(path / CHECKPOINT))
    return Ddpm(network.eval(), data, steps, spent, path / CHECKPOINT)
