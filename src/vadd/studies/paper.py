"""The paper's reported numbers, for tables side by side."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ToyNumbers:
    js_1: float
    js_5: float


TOYS: dict[tuple[str, str], ToyNumbers] = {
    ("checkerboard", "mdlm"): ToyNumbers(1.395, 0.211),
    ("checkerboard", "vadd"): ToyNumbers(0.062, 0.048),
    ("swissroll", "mdlm"): ToyNumbers(2.619, 0.287),
    ("swissroll", "vadd"): ToyNumbers(0.086, 0.025),
    ("circles", "mdlm"): ToyNumbers(2.273, 0.263),
    ("circles", "vadd"): ToyNumbers(0.161, 0.042),
}

BITS_PER_DIMENSION: dict[tuple[str, str], float] = {
    ("mnist", "mdlm"): 0.075,
    ("mnist", "vadd"): 0.063,
    ("cifar10", "mdlm"): 2.80,
    ("cifar10", "vadd"): 2.74,
}
"""MDLM's by the ELBO; VADD's by the DELBO, which is not a likelihood bound."""

PERPLEXITY: dict[tuple[str, str], float] = {
    ("openwebtext", "mdlm"): 23.07,
    ("openwebtext", "vadd"): 22.33,
}
"""MDLM's by the ELBO; VADD's by the DELBO with K = 10, which is not a likelihood bound."""

GENERATIVE_JUDGE = "gpt2-large"
OPENWEBTEXT_GENERATIVE_PERPLEXITY: dict[str, dict[int, float]] = {
    "mdlm": {16: 330.39, 32: 191.96, 64: 141.23, 128: 124.12, 256: 115.12, 512: 108.87, 1024: 104.58},
    "vadd": {16: 194.08, 32: 124.23, 64: 98.82, 128: 89.24, 256: 85.93, 512: 82.11, 1024: 78.27},
}
"""Under GPT-2 large, 256 samples, float64 draws."""

CIFAR10_FID: dict[str, dict[int, float]] = {
    "mdlm": {10: 334.3, 20: 261.3, 30: 203.4, 40: 166.1, 50: 140.3, 100: 76.5},
    "vadd": {10: 170.3, 20: 108.7, 30: 84.8, 40: 72.1, 50: 64.6, 100: 50.5},
}
