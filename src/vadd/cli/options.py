"""What the commands that draw share: how to sample, and the defaults of it."""

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from vadd.core import TokenSampler

StepCountOption = Annotated[
    int | None,
    typer.Option("--steps", help="Sampling steps. [default: the recipe's; first-hitting: one for each position]"),
]
SamplerOption = Annotated[
    str | None,
    typer.Option(
        "--sampler",
        help="ancestral, parallel or first-hitting (the model's own distribution); confidence, margin, entropy or "
        "entropy-bounded (the surest first); remask or remask-rescaled (with second thoughts). [default: the recipe's]",
    ),
]
TemperatureOption = Annotated[float, typer.Option("--temperature", help="Below 1 sharpens, 0 takes the likeliest.")]
TopKOption = Annotated[
    int | None, typer.Option("--top-k", help="Draw from the k likeliest values only.", show_default=False)
]
TopPOption = Annotated[
    float | None, typer.Option("--top-p", help="Draw from the likeliest values that reach p only.", show_default=False)
]
PrecisionOption = Annotated[
    str, typer.Option("--precision", help="float64, or float32 as in the paper's text figure, which sharpens.")
]
GridOption = Annotated[
    str | None, typer.Option("--grid", help="Step grid, uniform or cosine; by default the recipe's.")
]
LatentPolicyOption = Annotated[
    str | None, typer.Option("--latent-policy", help="resample or fixed; by default the recipe's.")
]
SeedOption = Annotated[int, typer.Option("--seed", min=0)]
OverwriteOption = Annotated[bool, typer.Option("--overwrite", help="Replace files that are there.")]


def check_sampler(
    sampler: str | None,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    precision: str = "float64",
) -> "TokenSampler":
    """How values are drawn; refuses what does not exist before anything is loaded."""
    from vadd.build import sampler_named
    from vadd.core import TokenSampler

    if sampler is not None:
        sampler_named(sampler)
    return TokenSampler(temperature=temperature, top_k=top_k, top_p=top_p, precision=precision)  # type: ignore[arg-type]  # checked on construction
