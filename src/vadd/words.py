"""Words that the command line and the reports share."""

MODEL_LABELS = {"mdlm": "MDLM", "vadd": "VADD"}


def plural(count: int, noun: str) -> str:
    """``1 step``, ``2 steps``."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def model_label(model: str) -> str:
    """What a model is called in tables and figures."""
    return MODEL_LABELS.get(model, model)
