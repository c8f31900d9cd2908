"""Which proposal makes the step bound tightest? The same examples, steps and particles for each, on trained runs.

    python benchmarks/proposals.py RUN [RUN ...] [--particles 8,64] [--steps 1,2,4] [--limit 2000] [--json FILE]

Every proposal is valid; the smallest negative log-likelihood wins. The standard error is of the *difference* from the
default mixture, example by example, because all proposals are judged by the same masks.
"""

import argparse
import json
import math
from pathlib import Path

from vadd.core import Particles, step_bound
from vadd.core.gaussian import ProposalName
from vadd.core.host import step_generator
from vadd.run.loading import load

PROPOSALS: tuple[tuple[ProposalName, ...], ...] = (
    ("recognition", "revealed", "prior"),
    ("recognition", "prior"),
    ("revealed", "prior"),
    ("recognition",),
    ("revealed",),
    ("prior",),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+")
    parser.add_argument("--particles", default="8,64")
    parser.add_argument("--steps", default="1,2,4")
    parser.add_argument("--limit", type=int, default=2000)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    rows = []
    for path in arguments.runs:
        run = load(path)
        x0 = run.data.test[: arguments.limit].to(run.model.device).long()
        for steps in map(int, arguments.steps.split(",")):
            for count in map(int, arguments.particles.split(",")):
                reference = None
                for proposals in PROPOSALS:
                    found = step_bound(run.model, x0, steps, Particles(count, proposals), step_generator(0))
                    reference = found if reference is None else reference
                    gap = reference - found
                    row = {
                        "run": Path(path).name,
                        "steps": steps,
                        "particles": count,
                        "proposals": "+".join(proposals),
                        "nats": -float(found.mean()),
                        "worse_than_default": float(gap.mean()),
                        "stderr": float(gap.std()) / math.sqrt(len(gap)),
                    }
                    rows.append(row)
                    print(
                        f"{row['run']:20} T = {steps:<3} K = {count:<4} {row['proposals']:28} {row['nats']:8.4f} nats  "
                        f"{row['worse_than_default']:+.4f} ± {row['stderr']:.4f}",
                        flush=True,
                    )
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
