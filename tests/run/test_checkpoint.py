"""Checkpoints: what is read is what was written, damage is noticed and named, and nothing is ever unpickled."""

import json
import pickle
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import vadd
from tests.helpers.networks import SMALL, small_model
from tests.helpers.runs import newest, some_state
from vadd.errors import UserError
from vadd.parallel import Processes
from vadd.recipe import Training
from vadd.run.checkpoint import Archive, TrainingState, Unfilled, read_checkpoint, read_weights, write_checkpoint
from vadd.run.directory import EMA, MANIFEST, MODEL, OPTIMIZER, RunDirectory
from vadd.training.optimizer import Stepper

FILES = (MODEL, EMA, OPTIMIZER)


def same_bits(one: Mapping[str, Tensor], two: Mapping[str, Tensor]) -> bool:
    return one.keys() == two.keys() and all(
        one[name].dtype == two[name].dtype and one[name].numpy().tobytes() == two[name].numpy().tobytes()
        for name in one
    )


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    path = tmp_path / "step-00000007"
    write_checkpoint(path, some_state())
    return path


def test_a_checkpoint_comes_back_bit_for_bit(checkpoint: Path) -> None:
    read, written = read_checkpoint(checkpoint), some_state()
    assert (read.step, read.unlogged, read.test_loss) == (written.step, written.unlogged, written.test_loss)
    assert same_bits(read.model, written.model)
    assert same_bits(read.ema, written.ema)
    assert same_bits(read.optimizer, written.optimizer)
    assert same_bits(read_weights(checkpoint), written.ema)


def test_a_checkpoint_is_replaced_whole_and_leaves_nothing_beside_it(checkpoint: Path) -> None:
    write_checkpoint(checkpoint, some_state(8))
    assert read_checkpoint(checkpoint).step == 8
    assert list(checkpoint.parent.iterdir()) == [checkpoint]


def test_the_rest_of_a_write_that_was_cut_off_does_not_disturb_the_next(tmp_path: Path) -> None:
    """Every write has a name of its own; the rest is removed when a training begins or goes on."""
    run = RunDirectory(tmp_path)
    place = run.checkpoint(7)
    write_checkpoint(place, some_state())
    partial = place.with_name(f".{place.name}.0123abcd.partial")
    partial.mkdir()
    (partial / "leftover").write_text("half")
    write_checkpoint(place, some_state())
    assert sorted(file.name for file in place.iterdir()) == sorted([*FILES, MANIFEST])
    Archive(run).sweep()
    assert list(place.parent.iterdir()) == [place]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", ["truncated", "emptied", "altered", "removed"])
def test_a_damaged_file_is_named(checkpoint: Path, name: str, damage: str) -> None:
    file = checkpoint / name
    content = file.read_bytes()
    if damage == "removed":
        file.unlink()
    else:
        altered = content[:-1] + bytes([content[-1] ^ 1])
        file.write_bytes({"truncated": content[:-10], "emptied": b"", "altered": altered}[damage])
    told = f"{checkpoint} is damaged: {name}"
    with pytest.raises(UserError, match=told):
        read_checkpoint(checkpoint)
    if name == EMA:
        with pytest.raises(UserError, match=told):
            read_weights(checkpoint)
    else:
        assert same_bits(read_weights(checkpoint), some_state().ema), "files that are not read need not be whole"


@pytest.mark.parametrize("content", [None, b"", b"{", b"[]", b'{"step": 7}', b'{"sha256": {}}', b"\xff\xfe"])
def test_a_missing_or_broken_manifest_is_named(checkpoint: Path, content: bytes | None) -> None:
    (checkpoint / MANIFEST).unlink()
    if content is not None:
        (checkpoint / MANIFEST).write_bytes(content)
    for read in (read_checkpoint, read_weights):
        with pytest.raises(UserError, match=f"{checkpoint} is damaged: {MANIFEST}"):
            read(checkpoint)


def test_the_manifest_is_json_that_states_the_step(checkpoint: Path) -> None:
    assert json.loads((checkpoint / MANIFEST).read_text())["step"] == 7


def test_an_optimiser_goes_on_where_it_was(tmp_path: Path) -> None:
    def two_parts() -> tuple[nn.Module, Stepper]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
        return model, Stepper(model, Training(learning_rate=0.1), Processes())

    def step(model: nn.Module, stepper: Stepper, number: int) -> None:
        stepper.zero_grad()
        x = torch.randn(5, 3, generator=torch.Generator().manual_seed(number))
        loss = model(x).square().sum()
        loss.backward()
        stepper.step(number, loss)

    model, stepper = two_parts()
    assert dict(stepper.tensors()) == {}
    for number in range(3):
        step(model, stepper, number)
    state = TrainingState(3, model.state_dict(), {}, dict(stepper.tensors()))
    write_checkpoint(tmp_path / "step-3", state)
    read = read_checkpoint(tmp_path / "step-3")
    restored, its_stepper = two_parts()
    restored.load_state_dict(read.model)
    its_stepper.restore(read.optimizer)
    for number in range(3, 6):
        step(model, stepper, number)
        step(restored, its_stepper, number)
    assert same_bits(model.state_dict(), restored.state_dict())


def test_a_run_consists_of_safetensors_json_yaml_and_event_files(vadd_run: Path) -> None:
    suffixes = {file.suffix for file in (vadd_run / "checkpoints").rglob("*") if file.is_file()}
    assert suffixes == {".safetensors", ".json"}
    others = [file for file in vadd_run.rglob("*") if file.is_file() and "tensorboard" not in file.parts]
    assert {file.suffix for file in others} == {".safetensors", ".json", ".jsonl", ".yaml", ".lock"}


def test_loading_a_run_unpickles_nothing(vadd_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("something was unpickled")

    for module, name in ((pickle, "load"), (pickle, "loads"), (pickle, "Unpickler"), (torch, "load")):
        monkeypatch.setattr(module, name, refuse)
    assert vadd.load(vadd_run).sample(3).shape == (3, 2)
    assert newest(vadd_run).step == 30


def test_weights_of_another_shape_do_not_fit(vadd_run: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(vadd_run, tmp_path / "copy")
    recipe = RunDirectory(copy).recipe().with_overrides(["network.width=17"])
    (copy / "recipe.yaml").write_text(recipe.to_yaml())
    with pytest.raises(UserError, match="do not fit the recipe"):
        vadd.load(copy)


@pytest.mark.parametrize("kind", SMALL)
def test_models_that_weights_are_read_into_draw_none_and_are_the_same(kind: str) -> None:
    """Also in what is not stored."""
    drawn = small_model(kind)
    with Unfilled():
        read = small_model(kind)
    read.load_state_dict(drawn.state_dict())
    for one, two in ((drawn.parameters(), read.parameters()), (drawn.buffers(), read.buffers())):
        assert all(torch.equal(a, b) for a, b in zip(one, two, strict=True))
    before = torch.get_rng_state()
    with Unfilled():
        nn.Linear(3, 4)
        nn.init.trunc_normal_(torch.empty(3))
    assert torch.equal(torch.get_rng_state(), before)
