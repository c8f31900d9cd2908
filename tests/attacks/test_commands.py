"""Every command with absurd values for each of its options: exit code 0 or 2, few words, no traceback, nothing outside
the working directory, nothing lost inside it.

The calls of a command run in a fork of this process, each with a limit on memory and processor time.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.attacks import Watched, problem
from tests.helpers.forks import in_forks
from tests.helpers.tiny import TINY

HUGE = 400 * "9"
NUMBERS = ("-1", "0", "nan", "inf", HUGE, "1" + 23 * "0", "x", "\x1b[31m", "\u0662")
PLACES = ("", "/dev/null", "/proc/self/mem", "missing/deep/file.json", "points", "x" * 5000, "\x1b[31m.json")
WORDS = ("", "nosuch", "\x1b[31mred", "x" * 5000, "../../etc/passwd", "-1", "[/bold]")

OPTIONS: dict[str, dict[tuple[str, ...], tuple[str, ...]]] = {
    "sample points -n 2": {
        ("-n", "--steps", "--seed", "--candidates", "--top-k"): NUMBERS,
        ("--temperature", "--top-p", "--guidance", "--memory"): NUMBERS,
        ("--sampler", "--grid", "--latent-policy", "--prior", "--precision", "--checkpoint", "--label"): WORDS,
        ("--out", "--trajectory"): PLACES,
        ("--energy",): ("points", "missing", "/dev/null"),
    },
    "sample people -n 2": {("--where",): (*WORDS, "sex=", "age=1-", "age>=x", "age=9-1", "nosuch=1", "sex=F|")},
    "sample digits -n 2": {("--label",): (*WORDS, "all", "7"), ("--guidance",): NUMBERS},
    "infill book --text ____": {("-n", "--steps", "--seed", "--gap", "--candidates", "--memory"): NUMBERS},
    "infill book": {
        ("--text", "--prefix", "--suffix", "--keep"): (*WORDS, "é" * 500),
        ("--file", "--out", "--image", "--array", "--table"): PLACES,
        ("--gap", "--length"): NUMBERS,
    },
    "infill digits": {("--image", "--array", "--mask", "--keep", "--from-data"): (*WORDS, *PLACES)},
    "infill people": {("--table",): PLACES},
    # Only what is refused: tables of numbers are longer than the limit.
    "eval points --steps 1 --samples 20": {
        ("--steps", "--samples", "--temperature", "--top-k", "--top-p"): NUMBERS[:-1],
        ("--latent-policy", "--prior", "--checkpoint", "--zero-shot", "--judge", "--sampler", "--energy"): WORDS,
        ("--json", "--data"): PLACES,
    },
    "eval points --bound 1 --limit 2": {
        ("--bound", "--bracket", "--particles", "--delbo-particles", "--limit"): NUMBERS[:-1],
        ("--proposals", "--grid", "--convention"): WORDS,
    },
    "eval points --bracket 1 --limit 2": {("--paths", "--bracket"): NUMBERS[:-1]},
    "eval points --conventions --limit 2": {("--particles",): NUMBERS[:-1]},
    "eval points --delbo --limit 2": {("--draws",): NUMBERS[:-1]},
    "latent points": {("--encode", "--interpolate", "--traverse"): NUMBERS, ("--out",): PLACES},
    "latent points --traverse": {("--points", "--span", "--dimensions", "--steps", "--temperature"): NUMBERS},
    "compare points --bound none --steps 1 --samples 20": {
        ("--steps", "--samples"): NUMBERS,
        ("--out", "--json"): PLACES,
    },
    # Only what is refused: the tables of a comparison with bounds are longer than the limit.
    "compare points --bound 1 --limit 2 --steps 1 --samples 20": {("--particles",): NUMBERS[:-1]},
    "plan checkerboard": {("--devices", "--flops"): NUMBERS, ("--json",): PLACES},
    "status points": {("--json",): PLACES},
    "export points new": {("--checkpoint",): (*WORDS, *NUMBERS), ("--push",): (*WORDS, "a/b/c", "a\nb/c", ".a/b")},
    "export points new --onnx": {("--steps",): NUMBERS[:-1], ("--sampler",): (*WORDS, "margin", "remask")},
    "fit-prior points": {("--steps", "--checkpoint"): NUMBERS},
    "judge book.txt": {("--limit",): NUMBERS, ("--judge",): ("/dev/null", "points"), ("--field",): WORDS},
    "judge book.txt book.txt": {("--source",): (*WORDS, *PLACES, "codes.npy")},
    "sample points -n 2 --out new.csv": {
        ("--grid",): ("0,1,0.5", "0,nan,1", "0,1e-320,1", "0,inf", ",", "0,0,1", "1,0")
    },
    "sample": {("",): ("nosuch-pretrained", "a\nb/c", "\udcff", "-pretrained", "points/../..")},
    "train training.steps=1 training.batch=4 latent.flow.steps=1": {("--data", "--start-from", "--out"): PLACES},
    f"train checkerboard {' '.join(TINY)} training.steps=2": {
        ("training.steps", "seed", "training.batch", "latent.dim", "training.learning_rate"): NUMBERS,
        ("name", "model", "network.kind", "data.kind"): WORDS,
    },
    "train --data book.txt training.steps=1 training.batch=4 latent.flow.steps=1 --out new": {
        ("data.length",): NUMBERS[:-1],
        ("data.tokenizer", "data.documents", "data.wrap"): WORDS,
    },
    "train --data book.txt --out new network.kind=transformers": {("network.model",): WORDS},
    "train --data table/people.csv training.steps=1 --out new": {
        ("data.bins",): NUMBERS[:-1],
        ("data.skip", "data.schema_path", "data.dependent"): (*WORDS[1:], "[nosuch]", "{a: b}", "book.txt"),
    },
    "doctor": {("--device",): WORDS, ("--json",): PLACES},
    "recipes": {("",): (*WORDS, *PLACES)},
    "runs": {("",): PLACES},
    "reproduce": {("",): WORDS},
    "data": {("",): (*WORDS, *PLACES)},
}


def calls(command: str) -> Iterator[list[str]]:
    """Each option with each of its absurd values, all else as usual."""
    for options, values in OPTIONS[command].items():
        for option in options:
            for value in values:
                key = f"{option}={value}" if "." in option or option in ("name", "model", "seed") else None
                yield [*command.split(), *([key] if key else [option, value] if option else [value])]


def test_there_are_at_least_four_hundred_distinct_calls() -> None:
    assert len({tuple(call) for command in OPTIONS for call in calls(command)}) >= 400


@pytest.mark.parametrize("command", OPTIONS)
def test_absurd_values_end_in_a_line(arena: Path, command: str) -> None:
    watched, all_calls = Watched(arena), list(calls(command))
    ends = zip(all_calls, in_forks(all_calls, watched.clean), strict=True)
    wrong = [([word[:60] for word in call], found) for call, ended in ends if (found := problem(ended)) is not None]
    assert wrong == []
    watched.check()
