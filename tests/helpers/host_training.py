"""What torchrun starts on every host: ``python -m tests.helpers.host_training RUN STEPS SHARDING [SECONDS]``.

``SECONDS`` is how long every step takes at least, so that a test can disturb a training in its middle.
"""

import sys
import time
from pathlib import Path

from tests.helpers.tiny import train_or_resume
from vadd.core import Objective
from vadd.errors import UserError
from vadd.recipe import Recipe, load_recipe
from vadd.training.loop import Trainer


def hosts_recipe(steps: int, sharding: str = "none") -> Recipe:
    network = (
        "network.kind=residual",
        "network.width=16",
        "network.denoiser.blocks=2",
        "network.recognizer.blocks=1",
        "network.dropout=0",
    )
    every = max(1, steps // 4)
    training = {"steps": steps, "batch": 32, "log_every": 1, "evaluate_every": steps, "checkpoint_every": every}
    settings = [f"training.{key}={value}" for key, value in training.items()]
    few = (
        "latent.dim=3",
        "latent.kind=shared",
        "latent.particles=1",
        "training.trackers=[]",
        f"training.sharding={sharding}",
    )
    # drawn data: to read others takes every process of every host a second
    return load_recipe("copies").with_overrides([*network, "data.train_size=500", "data.test_size=60", *settings, *few])


def main() -> None:
    path, steps, sharding, seconds = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3], float(sys.argv[4])
    undisturbed = Trainer.step

    def slow(self: Trainer, step: int) -> Objective:
        time.sleep(seconds)
        return undisturbed(self, step)

    Trainer.step = slow  # type: ignore[method-assign]
    try:
        train_or_resume(path, hosts_recipe(steps, sharding))
    except UserError as error:
        sys.exit(f"refused: {error}")


if __name__ == "__main__":
    main()
