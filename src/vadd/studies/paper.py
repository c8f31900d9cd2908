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
