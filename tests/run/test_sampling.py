"""Samples of a run: the same ones whatever the chunks, in memory that does not grow, and what is refused."""

from itertools import product
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from torch import Tensor, nn

import vadd
from tests.helpers.progress import Told
from tests.helpers.tiny import tiny_recipe
from vadd.core import EntropyBounded, Ordered, Parallel, Particles
from vadd.core.host import BLOCK
from vadd.core.sampling import DrawPrecision, LatentPolicy
from vadd.errors import UserError
from vadd.evaluation.likelihood import BoundSettings, measure_bounds
from vadd.kinds import Kind, kind_of
from vadd.recipe import SAMPLERS, Recipe, Sampling, build_model, load_recipe
from vadd.run import run as memory
from vadd.run.directory import RunDirectory
from vadd.run.run import Run

every_sampler = pytest.mark.parametrize("sampler", SAMPLERS)
POSITIONS = {"mlp": 2, "residual": 16, "transformer": 8}


@pytest.fixture(scope="module")
def trained(vadd_run: Path) -> Run:
    return vadd.load(vadd_run)


def with_random_weights(recipe: Recipe, format: Kind) -> Run:
    """Fresh networks predict the same everywhere; these do not."""
    model = build_model(recipe, format).eval().requires_grad_(False)
    generator = torch.Generator().manual_seed(0)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3, generator=generator)
    return Run(RunDirectory("nowhere"), model, recipe, format)


@pytest.fixture(scope="module")
def runs() -> dict[str, Run]:
    transformer = ["network.heads=2", "network.denoiser.width=16", "network.denoiser.blocks=2"]
    return {
        "mlp": with_random_weights(tiny_recipe(), kind_of((2,), 8)),
        "residual": with_random_weights(digits(), kind_of((4, 4, 1), 2)),
        "transformer": with_random_weights(load_recipe("pydocs").with_overrides(transformer), kind_of((8,), 30)),
    }


def digits() -> Recipe:
    small = ["network.width=16", "network.denoiser.blocks=1", "network.recognizer.blocks=1"]
    return load_recipe("digits").with_overrides(small)


def steps_of(sampler: str, positions: int) -> int | None:
    return None if sampler == "first-hitting" else min(4, positions)


NOTICES_ROUNDING = [name for name, sampler in SAMPLERS.items() if isinstance(sampler, Ordered | EntropyBounded)]
"""While all is masked, the positions of a transformer differ in nothing but rounding, and which is surer with it."""


@pytest.mark.parametrize(
    ("network", "sampler"),
    [pair for pair in product(POSITIONS, SAMPLERS) if pair[0] != "transformer" or pair[1] not in NOTICES_ROUNDING],
)
def test_the_chunks_do_not_matter(
    runs: dict[str, Run], network: str, sampler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With seeds for which no draw falls on a last bit; sizes that divide blocks and that do not."""
    run, n = runs[network], 100
    steps = steps_of(sampler, POSITIONS[network])
    whole = run.sample(n, steps=steps, seed=3, sampler=sampler)
    assert whole.shape == (n, POSITIONS[network])
    for rows in (24, 64, 90):
        monkeypatch.setattr(memory, "CPU_ROWS", rows)
        parts = [len(part.tokens) for part in run.stream(n, steps=steps, sampler=sampler)]
        assert parts[0] == {24: 24, 64: 64, 90: 64}[rows]
        assert sum(parts) == n
        assert run.sample(n, steps=steps, seed=3, sampler=sampler).equal(whole)


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("latent", ["resample", "fixed"])
def test_fewer_samples_are_the_first_of_more(
    runs: dict[str, Run], latent: LatentPolicy, precision: DrawPrecision
) -> None:
    for run in runs.values():
        many = run.sample(200, steps=2, seed=8, latent_policy=latent, precision=precision)
        for n in (1, 63, 2 * BLOCK):
            assert run.sample(n, steps=2, seed=8, latent_policy=latent, precision=precision).equal(many[:n])


@every_sampler
def test_a_trajectory_shows_the_very_samples_of_its_seed(runs: dict[str, Run], sampler: str) -> None:
    run = runs["residual"]
    steps = steps_of(sampler, 16) or 16
    states = run.trajectory(5, steps=steps, seed=2, sampler=sampler)
    assert states.shape == (steps + 1, 5, 16)
    assert (states[0] == 2).all()
    assert states[-1].equal(run.sample(70, steps=steps, seed=2, sampler=sampler)[:5])


def test_compiled_networks_draw_the_same_and_are_left_as_they_were(
    trained: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = nn.Module.compile
    monkeypatch.setattr(nn.Module, "compile", lambda self, **named: compiled(self, backend="eager", **named))
    for steps in (1, 3):
        assert torch.equal(trained.sample(70, steps=steps, compile=True), trained.sample(70, steps=steps))
    assert isinstance(trained.model.denoiser, nn.Module)
    assert trained.model.denoiser._compiled_call_impl is None
    torch._dynamo.reset()


def test_no_block_repeats_another(trained: Run) -> None:
    drawn = trained.sample(3 * BLOCK, steps=2).view(3, -1)
    assert len({tuple(block.tolist()) for block in drawn}) == 3


def test_progress_rises_with_every_step_under_one_name(trained: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "CPU_ROWS", BLOCK)
    told = Told()
    parts = list(trained.stream(100, steps=3, progress=told))
    evaluations = [part.evaluations for part in parts]
    assert [len(part.tokens) for part in parts] == [64, 36]
    assert evaluations == [3, 3]
    assert told == sorted(told)
    assert {(what, total) for what, _, total in told} == {("samples", 100)}, "who prints a line a name prints one"
    assert [done for _, done, _ in told] == [16, 32, 48, 64, 73, 82, 91, 100]
    assert 100 < sum(part.sequences for part in parts) <= 200, "a sequence of two positions is shown twice at most"


def test_of_the_first_samples_the_trajectories_are_kept(trained: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "CPU_ROWS", BLOCK)
    first, second, third = trained.stream(130, steps=3, record=70)
    assert first.trajectory is not None
    assert second.trajectory is not None
    assert third.trajectory is None
    assert [state.shape[:2] for state in (first.trajectory, second.trajectory)] == [(4, 64), (4, 6)]
    assert torch.cat([first.trajectory, second.trajectory], dim=1).equal(trained.trajectory(70, steps=3))
    assert second.trajectory[-1].equal(second.tokens[:6])


def test_the_recipe_says_how_to_sample_unless_told_otherwise(trained: Run) -> None:
    usual = trained.sample(200, steps=2)
    parallel = trained.with_sampling(sampler="parallel")
    assert not parallel.sample(200, steps=2).equal(usual)
    assert parallel.sample(200, steps=2).equal(trained.sample(200, steps=2, sampler=Parallel()))
    assert parallel.sample(200, steps=2, sampler="ancestral").equal(usual)


def test_the_names_of_a_recipe_are_those_of_the_samplers() -> None:
    assert get_args(Sampling.model_fields["sampler"].annotation) == (*SAMPLERS, "euler", "proposal")


def test_the_number_of_steps_follows_from_grid_and_sampler(trained: Run) -> None:
    assert trained.sample(100).equal(trained.sample(100, steps=1))
    in_five = trained.with_sampling(steps=5)
    assert in_five.sample(100).equal(trained.sample(100, steps=5))
    assert in_five.sample(100, sampler="parallel").equal(trained.sample(100, steps=2, sampler="parallel"))
    assert trained.sample(100, grid=[0, 0.3, 1]).equal(trained.sample(100, steps=2, grid=[0, 0.3, 1]))
    assert trained.sample(9, sampler="first-hitting").equal(trained.sample(9, sampler="first-hitting", steps=2))


def test_the_draws_of_values_can_be_changed(runs: dict[str, Run]) -> None:
    run = runs["residual"]
    z = torch.zeros(40, run.model.latent.dim)
    sure = run.sample(40, z=z, temperature=0)
    assert (sure == sure[0]).all()
    assert len(different(run.sample(40, z=z))) > 30


def different(tokens: Tensor) -> set[tuple[int, ...]]:
    return {tuple(row) for row in tokens.tolist()}


def test_latents_that_are_given_are_used_row_by_row(runs: dict[str, Run], monkeypatch: pytest.MonkeyPatch) -> None:
    """At temperature zero and in one step nothing else is random."""
    run = runs["residual"]
    z = 5 * torch.randn(7, run.model.latent.dim, generator=torch.Generator().manual_seed(1)).repeat(10, 1)
    monkeypatch.setattr(memory, "CPU_ROWS", 9)
    drawn = run.sample(70, z=z, temperature=0)
    assert drawn.equal(drawn[:7].repeat(10, 1))
    assert len(different(drawn)) > 4


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            {"sampler": "gibbs"},
            "unknown sampler 'gibbs'; choose from ancestral, parallel, first-hitting, left-to-right",
        ),
        ({"sampler": "parallel", "grid": "uniform"}, "the sampler parallel has no grid of times"),
        ({"sampler": "first-hitting", "grid": [0, 0.5, 1]}, "the sampler first-hitting has no grid"),
        ({"sampler": Parallel(), "grid": "cosine"}, "the sampler Parallel has no grid"),
        ({"sampler": "parallel", "steps": 3}, "at most 2 steps, not 3"),
        ({"sampler": "first-hitting", "steps": 1}, "2 steps, not 1"),
        ({"grid": [0, 1], "steps": 2}, "a grid of 2 steps is 3 times"),
        ({"grid": [0.1, 1]}, "times that rise from 0 to 1"),
        ({"grid": "square"}, "unknown grid 'square'"),
        ({"latent_policy": "new"}, "unknown latent_policy 'new'"),
        ({"z": torch.zeros(10, 3)}, r"have the shape \(10, 2\), not \(10, 3\)"),
        ({"z": torch.zeros(9, 2)}, r"have the shape \(10, 2\), not \(9, 2\)"),
        ({"step": 2}, "unknown option 'step' of sampling, did you mean 'steps'"),
    ],
    ids=lambda value: ", ".join(value) if isinstance(value, dict) else "",
)
def test_what_does_not_fit_is_refused_before_anything_is_drawn(
    trained: Run, arguments: dict[str, Any], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "draw", None)
    with pytest.raises(UserError, match=told):
        trained.stream(10, **arguments)
    with pytest.raises(UserError, match=told):
        trained.trajectory(10, **arguments)


def test_a_model_without_a_latent_is_given_none(mdlm_run: Path) -> None:
    with pytest.raises(UserError, match="has no latent"):
        vadd.load(mdlm_run).sample(3, z=torch.zeros(3, 2))


def test_bounds_are_those_of_the_recipes_sampler(trained: Run) -> None:
    settings = BoundSettings(Particles(4), steps=[2], limit=100)

    def nats(run: Run, settings: BoundSettings = settings) -> float:
        return measure_bounds(run, trained.data.test, settings).bounds[0].nats

    assert nats(trained) == nats(trained.with_sampling(sampler="ancestral"))
    assert nats(trained) != nats(trained.with_sampling(sampler="parallel"))
    assert nats(trained) != nats(trained.with_sampling(sampler="entropy-bounded"))
    assert nats(trained) != nats(trained.with_sampling(temperature=0.5))
    with pytest.raises(UserError, match="no likelihood bound exists for the sampler Ancestral: draws in float32"):
        nats(trained.with_sampling(precision="float32"))
    on_a_grid = BoundSettings(Particles(4), steps=[2], limit=100, grid="cosine")
    with pytest.raises(UserError, match="the sampler parallel has no grid"):
        nats(trained.with_sampling(sampler="parallel"), on_a_grid)


def test_settings_know_whether_samples_are_exact(trained: Run) -> None:
    def exact(**options: Any) -> bool:
        return trained.options(**options).exact

    assert exact()
    assert exact(sampler="first-hitting", top_p=1.0)
    assert not exact(sampler=EntropyBounded(0.0))
    assert not exact(temperature=0.9)
    assert not exact(precision="float32")
    assert exact(latent_policy="fixed")
    assert not exact(z=torch.zeros(1, 2))
