"""A training with a latent that starts from a finished one without: the same function at first, frozen or not."""

import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

import vadd
from tests.helpers.exact import seeded
from tests.helpers.foreign import POSITIONS, VALUES, random_state, reference_logits
from tests.helpers.runs import assert_same_state, newest
from tests.helpers.tiny import tiny_recipe, train_in
from vadd.core import Model
from vadd.errors import UserError
from vadd.networks.warm_start import latents_own
from vadd.recipe import Recipe, build_dataset
from vadd.run.directory import RunDirectory
from vadd.run.export import export
from vadd.training.loop import Trainer, train
from vadd.training.metrics import evaluate_held_out

SHORT = ("training.steps=12", "training.checkpoint_every=6", "training.evaluate_every=6")


def recipe_from(source: Path | str, *overrides: str) -> Recipe:
    return tiny_recipe(*SHORT, f"training.start_from={source}", *overrides)


def trainer_from(source: Path, path: Path, *overrides: str) -> Trainer:
    recipe = recipe_from(source, *overrides)
    RunDirectory(path).create(recipe)
    return Trainer(recipe, RunDirectory(path), build_dataset(recipe))


def weights(model: Model) -> dict[str, Tensor]:
    assert isinstance(model.denoiser, nn.Module)
    return {name: tensor.detach().clone() for name, tensor in model.denoiser.state_dict().items()}


@torch.no_grad()
def test_it_begins_as_the_model_without_a_latent(mdlm_run: Path, tmp_path: Path) -> None:
    """Logits bit for bit, whatever z is; and so the held-out reconstruction is MDLM's own objective, to rounding."""
    trainer, mdlm = trainer_from(mdlm_run, tmp_path / "run"), vadd.load(mdlm_run)
    xt = torch.randint(9, (50, 2), generator=seeded(0))
    xt[0] = 8
    t, where, z = torch.rand(50, generator=seeded(1)), xt == 8, 3 * torch.randn(50, 2, generator=seeded(2))
    for model in (trainer.model, trainer.ema.averaged):
        assert torch.equal(model.predict(xt, z, t, where), mdlm.model.predict(xt, None, t, where))
    found, own = (
        evaluate_held_out(model, trainer.data.test, 0, 8192, trainer.processes).objective
        for model in (trainer.ema.averaged.eval(), mdlm.model)
    )
    torch.testing.assert_close(found.reconstruction, own.reconstruction)
    assert float(found.kl) > 0, "the recognition model is new"


def test_an_export_serves_as_well_as_the_run(mdlm_run: Path, tmp_path: Path) -> None:
    export(RunDirectory(mdlm_run), tmp_path / "exported")
    one, other = (
        trainer_from(source, tmp_path / name) for name, source in (("a", mdlm_run), ("b", tmp_path / "exported"))
    )
    mine, theirs = weights(one.model), weights(other.model)
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)


def test_an_exported_model_with_a_latent_is_trained_further(vadd_run: Path, tmp_path: Path) -> None:
    """All weights, those of the recognition model too: the trained and the averaged ones begin as the export."""
    export(RunDirectory(vadd_run), tmp_path / "exported")
    trainer = trainer_from(tmp_path / "exported", tmp_path / "run")
    exported = vadd.load(tmp_path / "exported").model.state_dict()
    for model in (trainer.model, trainer.ema.averaged):
        state = model.state_dict()
        assert state.keys() == exported.keys()
        assert all(torch.equal(state[name], exported[name]) for name in exported)
    assert trainer.run().finished


def test_a_frozen_denoiser_stays_bit_for_bit_and_its_latent_learns(mdlm_run: Path, tmp_path: Path) -> None:
    """In the trained and in the averaged weights, with weight decay too."""
    changes = ("training.freeze=true", "training.optimizer=adamw", "training.weight_decay=0.1")
    recipe = recipe_from(mdlm_run, *changes)
    assert train_in(tmp_path / "run", recipe).finished
    before, state = weights(vadd.load(mdlm_run).model), newest(tmp_path / "run")
    for name, tensor in before.items():
        assert torch.equal(state.model[f"denoiser.{name}"], tensor)
        assert torch.equal(state.ema[f"denoiser.{name}"], tensor)
    own = latents_own(trainer_from(mdlm_run, tmp_path / "new").model.denoiser)  # type: ignore[arg-type]
    assert own
    assert all(float(state.model[f"denoiser.{name}"].abs().max()) > 0 for name in own)


def test_without_freezing_everything_learns(mdlm_run: Path, tmp_path: Path) -> None:
    assert train_in(tmp_path / "run", recipe_from(mdlm_run)).finished
    state = newest(tmp_path / "run")
    before = weights(vadd.load(mdlm_run).model)
    assert not any(torch.equal(state.model[f"denoiser.{name}"], tensor) for name, tensor in before.items())


@pytest.mark.parametrize("freeze", ["false", "true"])
def test_it_goes_on_as_if_undisturbed_even_where_its_start_is_gone(mdlm_run: Path, tmp_path: Path, freeze: str) -> None:
    """Bit for bit: stopped after 6 of 12 steps, with the run it started from removed meanwhile."""
    source = tmp_path / "source"
    shutil.copytree(mdlm_run, source)
    recipe = recipe_from(source, f"training.freeze={freeze}")
    train_in(tmp_path / "whole", recipe)
    train_in(tmp_path / "halved", recipe)
    shutil.rmtree(RunDirectory(tmp_path / "halved").checkpoint(12))
    shutil.rmtree(source)
    again = train(recipe, RunDirectory(tmp_path / "halved"), build_dataset(recipe), resume=True)
    assert again.finished
    assert_same_state(newest(tmp_path / "whole"), newest(tmp_path / "halved"))


def foreign_recipe(source: Path) -> Recipe:
    """For a transformer as small as the foreign one."""
    return Recipe.model_validate(
        {
            "name": "foreign",
            "data": {
                "kind": "copies",
                "positions": POSITIONS,
                "vocab_size": VALUES,
                "train_size": 100,
                "test_size": 50,
            },
            "network": {"kind": "transformer", "width": 16, "blocks": 2, "heads": 2, "condition": 8, "dropout": 0.0},
            "training": {"steps": 2, "batch": 8, "start_from": str(source)},
        }
    )


def test_a_foreign_checkpoint_is_a_start(tmp_path: Path) -> None:
    """Its own logits at step 0, to 1e-5, from a file named as the MDLM code names its tensors."""
    file = tmp_path / "foreign.safetensors"
    save_file(random_state(0, "backbone."), file)
    recipe = foreign_recipe(file)
    RunDirectory(tmp_path / "run").create(recipe)
    trainer = Trainer(recipe, RunDirectory(tmp_path / "run"), build_dataset(recipe))
    xt = torch.randint(VALUES + 1, (5, POSITIONS), generator=seeded(9))
    with torch.no_grad():
        where, z = torch.ones_like(xt, dtype=torch.bool), torch.randn(5, 2, generator=seeded(1))
        logits = trainer.model.predict(xt, z, torch.ones(5), where).view(5, POSITIONS, VALUES)
    expected = reference_logits(random_state(0), xt, heads=2)[..., :VALUES]
    torch.testing.assert_close(logits.double(), expected, rtol=0, atol=1e-5)
    assert trainer.run().finished
    file.write_bytes(b"nothing")
    with pytest.raises(UserError, match=f"^cannot read {file}: "):
        Trainer(recipe, RunDirectory(tmp_path / "run"), build_dataset(recipe))


def refusal(source: Path, path: Path, *overrides: str) -> str:
    with pytest.raises(UserError) as refused:
        trainer_from(source, path, *overrides)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_another_vocabulary_is_refused(mdlm_run: Path, tmp_path: Path) -> None:
    line = refusal(mdlm_run, tmp_path / "run", "data.vocab_size=10")
    assert line == f"{mdlm_run} was trained on examples of shape (2,) with 8 values; these have (2,) and 10"


def test_another_network_is_refused(mdlm_run: Path, tmp_path: Path) -> None:
    wider = refusal(mdlm_run, tmp_path / "wider", "network.width=24")
    assert wider.startswith("the weights to start from do not fit: of another shape: ")
    deeper = refusal(mdlm_run, tmp_path / "deeper", "network.denoiser.depth=2")
    assert deeper.startswith("the weights to start from do not fit: missing: readout.")


def test_another_model_with_a_latent_is_refused(vadd_run: Path, tmp_path: Path) -> None:
    line = refusal(vadd_run, tmp_path / "run", "model=mdlm")
    assert line == f"{vadd_run} is vadd; a training starts from MDLM or from its own model"
    other = refusal(vadd_run, tmp_path / "other", "latent.dim=3")
    assert other.startswith(f"the weights of {vadd_run} do not fit: network and latent must be those of its recipe")


def test_what_is_not_there_or_no_checkpoint_is_refused(mdlm_run: Path, tmp_path: Path) -> None:
    assert (
        refusal(tmp_path / "nothing", tmp_path / "a")
        == f"{tmp_path / 'nothing'} is not a run: there is no such directory"
    )
    foreign = tmp_path / "foreign.safetensors"
    save_file({"a": torch.zeros(1)}, foreign)
    fitting = "network.kind=transformer or, as SMDM, for network.kind=transformers with the configuration of a Llama"
    assert refusal(foreign, tmp_path / "b") == f"{foreign} is for {fitting}, not mlp"


def test_freezing_a_model_without_a_latent_is_refused(mdlm_run: Path, tmp_path: Path) -> None:
    line = refusal(mdlm_run, tmp_path / "run", "model=mdlm", "training.freeze=true")
    assert line == "training.freeze needs a model with a latent, model=vadd: another has nothing to learn"


def test_an_mdlm_may_start_from_another(mdlm_run: Path, tmp_path: Path) -> None:
    started, before = weights(trainer_from(mdlm_run, tmp_path / "run", "model=mdlm").model), vadd.load(mdlm_run).model
    assert all(torch.equal(started[name], tensor) for name, tensor in weights(before).items())
