"""The paper's reported numbers, for tables side by side; each says what it is and how it was measured."""

from collections.abc import Sequence
from dataclasses import dataclass

PARTICLES, DRAWS = 1000, 100
"""The paper's estimates of VADD: K latents for each of so many pairs (t, x_t); of the whole test set."""
WHOLE, NOT_SAID = "all of the test set", "not said"
REPRODUCED, REPORTED = "the paper", "quoted by the paper"


@dataclass(frozen=True, kw_only=True)
class Quoted:
    """A number of the paper's tables."""

    name: str
    """The row, as the paper calls it."""
    value: float
    which: str
    """ELBO, DELBO or exact; "as its authors report" where the paper only quotes."""
    model: str | None = None
    """The model of ours that it is to be read beside."""
    source: str = REPORTED
    particles: int | None = None
    draws: int | None = None
    detail: str | None = None
    """Parameters or iterations, whichever column its table has."""
    examples: str | None = None
    """How many were judged; None where the paper only quotes."""


def _mdlm(value: float, detail: str | None = None, examples: str = WHOLE) -> Quoted:
    return Quoted(
        name="MDLM", value=value, which="ELBO", model="mdlm", source=REPRODUCED, detail=detail, examples=examples
    )


def _vadd(value: float, detail: str | None = None, particles: int = PARTICLES, examples: str = WHOLE) -> Quoted:
    return Quoted(
        name="VADD",
        value=value,
        which="DELBO",
        model="vadd",
        source=REPRODUCED,
        particles=particles,
        draws=DRAWS,
        detail=detail,
        examples=examples,
    )


def _others(which: str, *rows: tuple[str, str | None, float]) -> tuple[Quoted, ...]:
    return tuple(Quoted(name=name, detail=detail, value=value, which=which) for name, detail, value in rows)


THEIRS = "as its authors report"


@dataclass(frozen=True)
class ToyNumbers:
    js_1: float
    js_5: float
    nll: float
    """MDLM's by the ELBO; VADD's by the DELBO, which is not a likelihood bound."""


TOYS: dict[tuple[str, str], ToyNumbers] = {
    ("checkerboard", "mdlm"): ToyNumbers(1.395, 0.211, 8.503),
    ("checkerboard", "vadd"): ToyNumbers(0.062, 0.048, 8.058),
    ("swissroll", "mdlm"): ToyNumbers(2.619, 0.287, 7.111),
    ("swissroll", "vadd"): ToyNumbers(0.086, 0.025, 6.132),
    ("circles", "mdlm"): ToyNumbers(2.273, 0.263, 7.462),
    ("circles", "vadd"): ToyNumbers(0.161, 0.042, 6.716),
}


def toy_nats(toy: str) -> tuple[Quoted, ...]:
    """Of "ground truth data": how many points is not said."""
    return _mdlm(TOYS[toy, "mdlm"].nll, examples=NOT_SAID), _vadd(TOYS[toy, "vadd"].nll, examples=NOT_SAID)


BITS_PER_DIMENSION: dict[str, Sequence[Quoted]] = {
    "mnist": (_mdlm(0.075, "2.2M"), _vadd(0.063, "2.3M")),
    "cifar10": (
        *_others(THEIRS, ("D3PM, L with lambda = 0.01", "37M", 4.40), ("MD4", "28M", 2.75)),
        _mdlm(2.80, "32M"),
        _vadd(2.74, "32M"),
    ),
}
"""Those of CIFAR-10 after 2M iterations; its FID after 1M."""

PERPLEXITY: dict[str, Sequence[Quoted]] = {
    "lm1b": (
        *_others(
            THEIRS,
            ("Transformer-XL", None, 23.5),
            ("OmniNet_T", None, 21.5),
            ("Transformer, autoregressive", "0.5M", 22.32),
            ("Transformer, autoregressive", "5M", 20.86),
            ("DiffusionBert", "1.9M", 63.78),
            ("SEDD-Absorb", "1M", 32.79),
            ("MDLM, by Sahoo et al.", "1M", 27.04),
            ("MDLM, by Sahoo et al.", "10M", 23.00),
        ),
        _mdlm(27.70, "1M"),
        _vadd(20.53, "1M"),
    ),
    "openwebtext": (
        *_others(
            THEIRS,
            ("Transformer, autoregressive", "1M", 17.54),
            ("SEDD, by Sahoo et al.", "1M", 24.10),
            ("MDLM, by Sahoo et al.", "1M", 23.21),
        ),
        _mdlm(23.07, "1M"),
        *(
            _vadd(value, "1M", particles)
            for particles, value in ((1, 22.56), (10, 22.33), (50, 22.36), (100, 22.27), (1000, 22.21))
        ),
    ),
}

GENERATIVE_JUDGE = "gpt2-large"
GENERATIVE_SAMPLES = 256
OPENWEBTEXT_GENERATIVE_PERPLEXITY: dict[str, dict[int, float]] = {
    "mdlm": {16: 330.39, 32: 191.96, 64: 141.23, 128: 124.12, 256: 115.12, 512: 108.87, 1024: 104.58},
    "vadd": {16: 194.08, 32: 124.23, 64: 98.82, 128: 89.24, 256: 85.93, 512: 82.11, 1024: 78.27},
}
"""Under GPT-2 large, 256 samples, float64 draws. Those in float32 are a figure, whose numbers are not printed."""

CORPORA = ("lambada", "lm1b", "wikitext", "ag_news", "pubmed", "arxiv")
ZERO_SHOT: dict[str, Sequence[float | None]] = {
    "GPT-2, autoregressive: exact, quoted by the paper": (51.28, 51.25, 25.75, 52.09, 49.01, 41.73),
    "SEDD-Absorb, quoted by the paper": (50.92, 79.29, 40.62, None, None, None),
    "RADD-AO, quoted by the paper": (49.43, 70.71, 35.25, None, None, None),
    "MDLM, the paper: ELBO": (49.67, 71.03, 35.61, 68.57, 42.43, 37.92),
    "VADD, the paper: DELBO, K = 1000, not a bound": (47.30, 69.71, 34.78, 68.00, 40.62, 36.39),
}
"""In the order of the corpora; models trained on OpenWebText for 1M iterations."""

TRAINING_SPEED: dict[str, float] = {"MDLM": 2.77, "EDLM": 1.74, "VADD": 1.84}
"""Iterations a second on OpenWebText with batch 512, on hardware that the paper does not name."""

CIFAR10_FID: dict[str, dict[int, float]] = {
    "mdlm": {10: 334.3, 20: 261.3, 30: 203.4, 40: 166.1, 50: 140.3, 100: 76.5},
    "vadd": {10: 170.3, 20: 108.7, 30: 84.8, 40: 72.1, 50: 64.6, 100: 50.5},
}
FID_IMAGES = 50_000
DDPM_FID: dict[int, float] = {10: 298.7, 20: 239.1, 30: 187.2, 40: 153.6, 50: 131.0, 100: 77.2}
