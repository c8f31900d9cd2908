"""The Python interface with wrong types and absurd values: an error of one line, and nothing is written."""

import copy
import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import vadd

LATER: tuple[Any, ...] = (None, "x", 1.5, float("nan"), -1, 0, 10**30, [], {}, b"", object(), (1, "a"), True)
NUMBERS: tuple[Any, ...] = ("x", float("nan"), float("inf"), -1, 10**30, [], {}, b"x", object(), "1" * 400)
TENSORS: dict[str, Callable[[], Any]] = {
    "sparse": lambda: torch.zeros(2, 2).to_sparse(),
    "meta": lambda: torch.zeros(2, 2, device="meta", dtype=torch.int64),
    "floats": lambda: torch.rand(2, 2),
    "complex": lambda: torch.zeros(2, 2, dtype=torch.complex64),
    "empty": lambda: torch.zeros(0, 2, dtype=torch.int64),
    "scalar": lambda: torch.tensor(3),
    "wrong width": lambda: torch.zeros(2, 7, dtype=torch.int64),
    "too large": lambda: torch.full((2, 2), 10**9),
    "objects": lambda: np.array([[object(), 1]]),
    "text": lambda: "codes",
    "none": lambda: None,
    "nested": lambda: torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)], layout=torch.jagged),
    "masked": lambda: np.ma.array([[1, 2], [3, 0]], mask=np.array([[False, True], [False, False]])),
    "list of words": lambda: [["a", "b"]],
    "empty name": lambda: "",
}


def refused(call: Callable[[], object]) -> str:
    """What our error says; everything else is a failure of the test."""
    with pytest.raises(vadd.UserError) as caught:
        call()
    said = str(caught.value)
    assert said
    assert "\n" not in said
    assert len(said) < 1000
    return said


@pytest.fixture(scope="module")
def points(arena: Path) -> vadd.Run:
    return vadd.load(arena / "points")


@pytest.mark.parametrize("name", ["steps", "seed", "temperature", "top_k", "top_p", "memory", "candidates", "guidance"])
@pytest.mark.parametrize("value", NUMBERS, ids=lambda value: repr(value)[:12])
def test_sampling_options(points: vadd.Run, name: str, value: Any) -> None:
    if name in ("temperature", "memory") and value == 10**30:
        return  # a high temperature is a uniform distribution, and nobody needs all of the memory
    refused(lambda: points.sample(2, **{name: value}))


@pytest.mark.parametrize("value", [*NUMBERS, 0], ids=lambda value: repr(value)[:12])
def test_numbers_of_samples(points: vadd.Run, value: Any) -> None:
    refused(lambda: points.sample(value))


@pytest.mark.parametrize("name", ["sampler", "grid", "latent_policy", "precision", "label"])
@pytest.mark.parametrize("value", ["nosuch", 3, object(), [], "x" * 5000], ids=lambda value: repr(value)[:12])
def test_names(points: vadd.Run, name: str, value: Any) -> None:
    refused(lambda: points.sample(2, **{name: value}))


@pytest.mark.parametrize("name", ["step", "sampeler", "latentpolicy", "temprature"])
def test_a_mistyped_keyword_is_answered_with_the_nearest_name(points: vadd.Run, name: str) -> None:
    assert "did you mean" in refused(lambda: points.sample(2, **{name: 1}))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["particels", "limti", "memry"])
def test_a_mistyped_keyword_of_a_method_is_answered_too(points: vadd.Run, name: str) -> None:
    call: Callable[..., object] = points.sample if name == "memry" else partial(points.bound, 1)
    assert "did you mean" in refused(lambda: call(**{name: 1}))


LATENTS: tuple[Any, ...] = ("x", object(), float("nan"), [[float("inf")] * 4] * 2, torch.zeros(2, 4).to_sparse())


@pytest.mark.parametrize("z", [*LATENTS, TENSORS["meta"](), TENSORS["complex"]()], ids=lambda value: repr(value)[:12])
def test_latents(points: vadd.Run, z: Any) -> None:
    refused(lambda: points.sample(2, z=z))


@pytest.mark.parametrize("kind", TENSORS)
def test_tensors_to_fill(points: vadd.Run, kind: str) -> None:
    refused(lambda: points.infill(TENSORS[kind]()))


@pytest.mark.parametrize("kind", [kind for kind in TENSORS if kind != "none"])
def test_tensors_to_bound(points: vadd.Run, kind: str) -> None:
    refused(lambda: points.bound(1, TENSORS[kind]()))


@pytest.mark.parametrize("value", [*NUMBERS, 0], ids=lambda value: repr(value)[:12])
def test_bounds(points: vadd.Run, value: Any) -> None:
    if value != []:
        refused(lambda: points.evaluate(samples=value))
    refused(lambda: points.bound(value, limit=2))
    refused(lambda: points.bound(1, particles=value, limit=2))


@pytest.mark.parametrize("value", LATER, ids=lambda value: repr(value)[:12])
def test_what_is_no_run(value: Any) -> None:
    refused(lambda: vadd.load(value))


@pytest.mark.parametrize("device", ["cuda", "cuda:7", "nosuch", "", 3, object()], ids=lambda value: repr(value)[:12])
def test_devices(arena: Path, device: Any) -> None:
    if str(device).startswith("cuda") and torch.cuda.is_available():
        pytest.skip("there is one")
    refused(lambda: vadd.load(arena / "points", device=device))
    refused(lambda: vadd.train("checkerboard", arena / "new", device=device, steps=1))
    assert not (arena / "new").exists()


@pytest.mark.parametrize("kind", [kind for kind in TENSORS if kind not in ("list of words", "wrong width")])
def test_data_to_train_on(arena: Path, kind: str) -> None:
    refused(lambda: vadd.train(TENSORS[kind](), arena / "new", steps=1))
    assert not (arena / "new").exists()


@pytest.mark.parametrize("keyword", [{"lr": 1}, {"stepz": 1}, {"latent": 3}, {"steps": "x"}, {"steps": float("nan")}])
def test_keywords_of_train(arena: Path, keyword: dict[str, Any]) -> None:
    said = refused(lambda: vadd.train("checkerboard", arena / "new", **keyword))
    if "lr" in keyword:
        assert "training.learning_rate" in said
    assert not (arena / "new").exists()


def test_a_dataset_of_torch_without_arrays_is_named(arena: Path) -> None:
    some = torch.utils.data.Subset(torch.utils.data.TensorDataset(torch.zeros(9, 3), torch.zeros(9)), [0, 1])
    assert "Subset" in refused(lambda: vadd.train(some, arena / "new", steps=1))


def test_a_run_can_be_copied_and_pickled(points: vadd.Run) -> None:
    expected = points.sample(8, steps=2, seed=1)
    assert torch.equal(copy.deepcopy(points).sample(8, steps=2, seed=1), expected)
    assert torch.equal(pickle.loads(pickle.dumps(points)).sample(8, steps=2, seed=1), expected)
