"""Numbers about runs."""

from vadd.evaluation.divergence import entropy, histogram, jsd, mutual_information, paper_js, sampling_floor
from vadd.evaluation.evaluate import EvaluationOptions, evaluate
from vadd.evaluation.likelihood import BoundSettings
from vadd.evaluation.reports import RunReport
