"""Reports made by hand."""

from typing import Any

from vadd.evaluation.reports import DistributionDistance, LikelihoodReport, NegativeLogLikelihood, RunReport, StepResult


def run_report(model: str, recipe: str = "checkerboard", **more: Any) -> RunReport:
    about = {"run": f"runs/{model}", "values": 8, "training_steps": 500, "sampler": "ancestral", "results": ()}
    return RunReport(recipe=recipe, model=model, **{**about, **more})


def toy_distance(paper_js: float = 1.4, exact: float | None = 0.19, floor: float = 0.05) -> DistributionDistance:
    return DistributionDistance(jsd=0.2, paper_js=paper_js, jsd_floor=0.01, paper_js_floor=floor, jsd_exact=exact)


def toy_report(model: str, *distances: DistributionDistance, recipe: str = "circles") -> RunReport:
    """The distances at 1, 2, 4, ... steps."""
    results = tuple(StepResult(steps=2**number, metrics=distance) for number, distance in enumerate(distances))
    return run_report(model, recipe, results=results)


def bits(bpd: float, *, valid: bool = True, **more: Any) -> NegativeLogLikelihood:
    numbers = {"nats": 10 * bpd, "stderr": 0.1, "perplexity": 2**bpd, "examples": 5, "scored": 50}
    return NegativeLogLikelihood(bpd=bpd, valid=valid, **{**numbers, **more})


def likelihood(model: str, integral: float, *bounds: tuple[int, float], **more: Any) -> LikelihoodReport:
    """Step bounds as (steps, bits), and the paper's formula: the ELBO, or the DELBO for VADD."""
    found = tuple(bits(bpd, steps=steps, **more) for steps, bpd in bounds)
    if model == "mdlm":
        return LikelihoodReport(bounds=found, elbo=bits(integral, draws=2, **more))
    delbo = bits(integral, **{**more, "valid": False}, particles=4, draws=2)
    return LikelihoodReport(bounds=found, delbo=delbo, delbo_by_particles=(delbo,))
