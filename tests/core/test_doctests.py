"""The examples in the docstrings of vadd.core run and give what they say; the main things have one."""

import doctest
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from types import ModuleType

import pytest
import torch

import vadd.core
from vadd import core

MODULES = [importlib.import_module(found.name) for found in pkgutil.iter_modules(vadd.core.__path__, "vadd.core.")]
WITH_EXAMPLE = [
    core.Ancestral,
    core.ExactCount,
    core.GaussianLatent,
    core.LinearSchedule,
    core.MaskedBatch,
    core.MaskedDiffusion,
    core.Noise,
    core.Samples,
    core.TokenSampler,
    core.objective,
    core.sample,
    core.step_bound,
]


def documented(module: ModuleType) -> Iterator[object]:
    """The module, and the functions and classes that it defines, decorated or not."""
    yield module
    for member in vars(module).values():
        if (inspect.isclass(member) or inspect.isroutine(member)) and member.__module__ == module.__name__:
            yield inspect.unwrap(member)


def examples(thing: object, module: ModuleType) -> list[doctest.DocTest]:
    """Those of a class with its methods."""
    found = doctest.DocTestFinder(recurse=inspect.isclass(thing)).find(
        thing, getattr(thing, "__name__", None), globs=dict(vars(module))
    )
    return [each for each in found if each.examples]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_every_example_gives_what_it_says(module: ModuleType) -> None:
    runner = doctest.DocTestRunner()
    with torch.random.fork_rng(devices=[]):
        for thing in documented(module):
            for example in examples(thing, module):
                assert runner.run(example).failed == 0, f"{example.name}; what it gave stands above"


@pytest.mark.parametrize("thing", WITH_EXAMPLE, ids=lambda thing: thing.__name__)
def test_the_main_things_have_an_example(thing: type) -> None:
    module = inspect.getmodule(inspect.unwrap(thing))
    assert module in MODULES
    assert examples(inspect.unwrap(thing), module)


@pytest.mark.parametrize("name", [name for name, thing in vars(core).items() if callable(thing)])
def test_everything_that_is_exported_says_itself_what_it_is(name: str) -> None:
    """Not by what it inherits from torch, nor by the signature that a dataclass without a docstring gets."""
    text = inspect.unwrap(getattr(core, name)).__doc__
    assert text
    assert not text.startswith(f"{name}(")
