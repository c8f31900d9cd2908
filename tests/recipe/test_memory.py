"""Whether a training fits: what is there, an upper bound of what is needed, and who is spared the counting."""

from pathlib import Path

import pytest
import torch
from benchmarks.memory import peak

from vadd.kinds import kind_of
from vadd.recipe import load_recipe
from vadd.recipe import plan as fitting
from vadd.recipe.counting import model_on_meta, training_cost

CPU = torch.device("cpu")
TEXT = kind_of((64,), 100)


@pytest.mark.parametrize("model", ["mdlm", "vadd"])
@pytest.mark.parametrize("name", ["checkerboard-paper", "mnist-small", "mnist", "text8-small", "lm1b"])
def test_no_network_needs_more_than_the_upper_bound(name: str, model: str) -> None:
    recipe = load_recipe(name).with_overrides([f"model={model}", "training.batch=8"])
    format = TEXT if recipe.data.kind == "text" else recipe.data.example_kind()
    counted = model_on_meta(recipe, format)
    weights = sum(parameter.numel() for parameter in counted.parameters())
    needed = 20 * weights + 8 * training_cost(counted, recipe, 4).remembered
    assert needed <= fitting.upper_bound(recipe, format, 1)


@pytest.mark.parametrize("checkpointing", ["false", "true"])
@pytest.mark.parametrize("name", ["mnist", "lm1b"])
def test_a_step_holds_what_is_planned(name: str, checkpointing: str) -> None:
    """At the paper's widths, with fewer blocks; `benchmarks/memory.py` has the paper's size."""
    small = ("training.batch=8", "network.blocks=2", f"network.checkpointing={checkpointing}")
    recipe = load_recipe(name).with_overrides(small)
    for planned in fitting.make_plan(recipe, rate=1e9).memory:
        assert planned.total == pytest.approx(peak(recipe, half=planned.precision == "bfloat16"), rel=0.1)


@pytest.mark.parametrize("name", ["checkerboard", "circles-paper", "copies", "digits", "mnist-small", "cifar10-small"])
def test_small_recipes_are_spared_the_counting(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting, "available_memory", lambda device: 4 * 10**9)
    monkeypatch.setattr("vadd.recipe.counting.model_on_meta", None)
    recipe = load_recipe(name)
    fitting.check_memory(recipe, recipe.data.example_kind())


def test_a_recipe_that_has_to_be_counted_and_fits_is_let_through(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = load_recipe("checkerboard").with_overrides(["training.batch=100000"])
    format = recipe.data.example_kind()
    assert fitting.upper_bound(recipe, format, 1) > 10**10
    monkeypatch.setattr(fitting, "available_memory", lambda device: 10**10)
    fitting.check_memory(recipe, format)


def test_padded_examples_can_be_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = load_recipe("text8-per-state")
    monkeypatch.setattr(fitting, "upper_bound", lambda *_: 10**12)
    monkeypatch.setattr(fitting, "available_memory", lambda device: 10**10)
    fitting.check_memory(recipe, kind_of(TEXT.shape, TEXT.vocab_size, pad=0))


def test_the_limit_of_a_container_counts_and_processes_share_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(fitting, "CONTROL_GROUPS", (limit, tmp_path / "nowhere"))
    limit.write_text("max\n")
    assert fitting.available_memory(CPU) > 1_000_000
    limit.write_text("1000000\n")
    assert fitting.available_memory(CPU) == 1_000_000
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert fitting.available_memory(CPU) == 250_000
