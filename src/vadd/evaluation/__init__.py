"""Numbers about runs."""

from vadd.evaluation.divergence import entropy, histogram, jsd, mutual_information, paper_js, sampling_floor
from vadd.evaluation.evaluate import Report, evaluate
from vadd.evaluation.likelihood import BoundSettings

__all__ = [
    "BoundSettings",
    "Report",
    "entropy",
    "evaluate",
    "histogram",
    "jsd",
    "mutual_information",
    "paper_js",
    "sampling_floor",
]
