"""Install the newest wheel of dist/ into a fresh environment outside the repository, and use it there."""

import os
import subprocess
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parent.parent
SHORT = ["training.steps=5", "training.batch=16", "network.width=16", "data.train_size=200", "data.test_size=50"]
SCRIPT = """
import sys
from pathlib import Path

import numpy as np
import vadd

assert Path(vadd.__file__).is_relative_to(sys.prefix), vadd.__file__
codes = np.arange(60).reshape(20, 3) % 4
run = vadd.train(codes, "codes", steps=3, batch=4, progress=False)
assert run.sample(2, steps=1).shape == (2, 3)
assert vadd.load("codes").bound(1, particles=2).bounds[1].valid
print(vadd.__version__, run)
"""


def main() -> None:
    (wheel,) = sorted((ROOT / "dist").glob("*.whl"))
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        venv.create(place / "env", with_pip=True)
        bin_directory = place / "env" / ("Scripts" if os.name == "nt" else "bin")
        # Nothing of the repository, and no setting of whoever runs this, may help.
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}

        def run(*command: object) -> None:
            shown = " ".join(map(str, command))
            print(f"$ {shown if len(shown) < 200 else shown[:60] + ' ...'}", flush=True)
            subprocess.run([str(part) for part in command], cwd=place, env=clean, check=True)

        pip = [bin_directory / "python", "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
        run(*pip, "--constraint", ROOT / "constraints.txt", wheel)
        run(bin_directory / "vadd", "--help")
        run(bin_directory / "vadd", "recipes")
        run(bin_directory / "vadd", "train", "checkerboard", *SHORT, "--out", "checkers")
        run(bin_directory / "vadd", "sample", "checkers", "-n", "10", "--steps", "1", "--out", "points.npy")
        run(bin_directory / "python", "-c", SCRIPT)
    print(f"{wheel.name} works in a fresh environment")


if __name__ == "__main__":
    main()
