"""A network of one's own is a run like any other: trained, stopped, resumed, opened, measured, exported."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import vadd
from tests.helpers.commands import Command
from tests.helpers.own_networks import LATENT, POSITIONS, VOCAB_SIZE, OwnDenoiser, OwnRecognizer
from vadd.kinds import kind_of
from vadd.networks import CustomNetworks, MlpDenoiser, SiameseMlpRecognizer
from vadd.recipe import build_model, recipe_for
from vadd.run.directory import RunDirectory
from vadd.training.train import with_networks

SHORT: dict[str, Any] = {
    "steps": 20,
    "batch": 16,
    "warmup_steps": 2,
    "log_every": 5,
    "evaluate_every": 10,
    "checkpoint_every": 10,
    "progress": False,
}


def networks(seed: int = 0) -> dict[str, Any]:
    torch.manual_seed(seed)
    return {"denoiser": OwnDenoiser(), "recognizer": OwnRecognizer()}


def test_a_run_with_own_networks_goes_all_the_way(codes_file: Path, tmp_path: Path, vadd_command: Command) -> None:
    own = networks()
    before = {name: tensor.clone() for name, tensor in own["denoiser"].state_dict().items()}
    run = vadd.train(codes_file, tmp_path / "run", **own, **SHORT)
    assert all(tensor.equal(before[name]) for name, tensor in own["denoiser"].state_dict().items())
    assert (run.recipe.network.kind, run.recipe.latent.dim) == ("own", LATENT)

    opened = vadd.load(tmp_path / "run", **networks(seed=1))
    assert opened.sample(5, steps=2).equal(run.sample(5, steps=2))
    results = opened.evaluate((1,), samples=50, bound=(1,), particles=4)
    assert results.bounds[1].valid
    assert opened.data.train.equal(run.data.train)

    exported = opened.export(tmp_path / "exported")
    assert "denoiser=OwnDenoiser(...), recognizer=OwnRecognizer(...)" in (exported / "README.md").read_text()
    again = vadd.load(exported, **networks(seed=2))
    assert again.sample(5, steps=2).equal(run.sample(5, steps=2))

    told = vadd_command("sample", tmp_path / "run")
    assert told.code == 2
    assert "open it in Python, vadd.load(PATH, denoiser=OwnDenoiser(...)" in told.err


def test_a_stopped_run_ends_where_an_undisturbed_one_does(codes_file: Path, tmp_path: Path) -> None:
    def stop(event: Any) -> None:
        if event.step == 7:
            event.stop()

    whole = vadd.train(codes_file, tmp_path / "whole", **networks(), **SHORT)
    assert vadd.train(codes_file, tmp_path / "run", **networks(), on_step=stop, **SHORT).step == 7
    resumed = vadd.train(out=tmp_path / "run", resume=True, progress=False, **networks(seed=1))
    ours, theirs = resumed.model.state_dict(), whole.model.state_dict()
    assert all(ours[name].equal(theirs[name]) for name in theirs)


def test_the_packages_networks_given_as_ones_own_learn_the_same(codes_file: Path, tmp_path: Path) -> None:
    """The initial weights are those that the recipe's seed gives, so every step is the same to the last bit. With
    N(0, I): a prior that is trained with the model is drawn after the networks, which are not drawn where given.
    """
    sections: dict[str, Any] = {
        "network": {"kind": "mlp", "width": 16, "denoiser": {"depth": 1}, "recognizer": {"depth": 1}},
        "latent": {"dim": 2, "kind": "per-state"},
    }
    by_recipe = vadd.train(codes_file, tmp_path / "recipe", **sections, **SHORT)
    untrained = build_model(by_recipe.recipe, by_recipe.kind)
    assert isinstance(untrained.denoiser, MlpDenoiser)
    assert isinstance(untrained.latent.recognizer, SiameseMlpRecognizer)
    given: dict[str, Any] = {"denoiser": untrained.denoiser, "recognizer": untrained.latent.recognizer}
    own = vadd.train(codes_file, tmp_path / "own", **given, **SHORT, latent={"kind": "per-state"})
    ours, theirs = own.model.state_dict(), by_recipe.model.state_dict()
    assert ours.keys() == theirs.keys()
    assert all(ours[name].equal(theirs[name]) for name in theirs)


def test_the_prior_beside_own_networks_begins_by_the_seed_of_the_recipe(codes_file: Path) -> None:
    """Whatever the state of the global generator, which stays as it is."""
    own = CustomNetworks(**networks())
    recipe = with_networks(recipe_for(codes_file), own)
    assert recipe.latent.prior == "autoregressive"
    built = []
    for state in (1, 2):
        torch.manual_seed(state)
        before = torch.get_rng_state()
        built.append(build_model(recipe, kind_of((POSITIONS,), VOCAB_SIZE), own).state_dict())
        assert torch.get_rng_state().equal(before)
    assert any("prior" in name for name in built[0])
    assert all(built[0][name].equal(built[1][name]) for name in built[0])


def test_a_model_without_a_latent_and_one_with_codes_alone(codes_file: Path, tmp_path: Path) -> None:
    plain = vadd.train(codes_file, tmp_path / "mdlm", "mdlm", denoiser=OwnDenoiser(latent=None), **SHORT)
    assert plain.bound(1).bounds[1].valid
    codes = {"codes": 3, "dim": 0}
    coded = vadd.train(codes_file, tmp_path / "codes", denoiser=OwnDenoiser(latent=3), latent=codes, **SHORT)
    assert coded.sample(4, steps=2).shape == (4, POSITIONS)


class Tied(OwnDenoiser):
    """Two names for one tensor, as a language model's table and head often are."""

    def __init__(self) -> None:
        super().__init__(latent=None)
        self.table = nn.Embedding(VOCAB_SIZE, 8)
        self.out = nn.Linear(8, VOCAB_SIZE, bias=False)
        self.out.weight = self.table.weight
        self.mix = nn.Linear(POSITIONS * (VOCAB_SIZE + 1), POSITIONS * 8)

    def logits(self, xt: Tensor, z: Tensor | None) -> Tensor:
        tokens = nn.functional.one_hot(xt, VOCAB_SIZE + 1).flatten(1).float()
        out: Tensor = self.out(self.mix(tokens).view(-1, POSITIONS, 8)) + super().logits(xt, z)
        return out


def test_tensors_with_two_names_are_saved_and_stay_one(codes_file: Path, tmp_path: Path) -> None:
    run = vadd.train(codes_file, tmp_path / "run", "mdlm", denoiser=Tied(), **SHORT)
    state = run.model.state_dict()
    assert state["denoiser.table.weight"].equal(state["denoiser.out.weight"])
    run.export(tmp_path / "exported")
    assert vadd.load(tmp_path / "exported", denoiser=Tied()).sample(3, steps=1).equal(run.sample(3, steps=1))


def test_what_two_networks_share_they_go_on_sharing() -> None:
    denoiser, recognizer = OwnDenoiser(), OwnRecognizer()
    recognizer.layer.weight = denoiser.head.weight  # of another shape: nobody calls it here
    copied, other = CustomNetworks(denoiser, recognizer).copies()
    assert isinstance(other, OwnRecognizer)
    assert isinstance(copied, OwnDenoiser)
    assert other.layer.weight is copied.head.weight
    assert other.layer.weight is not denoiser.head.weight


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no recognizer": ({"denoiser": OwnDenoiser()}, "recognizer=..., for example vadd.networks.SiameseMlpRecognizer"),
    "no denoiser": ({"recognizer": OwnRecognizer()}, "needs a custom denoiser"),
    "one too many": (
        {"denoiser": OwnDenoiser(latent=None), "recognizer": OwnRecognizer(), "model": "mdlm"},
        "a recognition model needs model=vadd",
    ),
    "another size": (
        {"denoiser": OwnDenoiser(5), "recognizer": OwnRecognizer(5)},
        "made for 5 positions of 4 values; the data have 6 of 4",
    ),
    "a broken one": ({"denoiser": nn.Linear(2, 2), "recognizer": OwnRecognizer()}, "(and 2 more, see vadd.check)"),
    "not for this model": ({**networks(), "model": "ar"}, "custom networks need model=vadd or model=mdlm, not ar"),
}


@pytest.mark.parametrize("case", WRONG)
def test_networks_that_do_not_fit_are_refused_before_anything_is_written(
    case: str, codes_file: Path, tmp_path: Path
) -> None:
    given, said = WRONG[case]
    with pytest.raises(vadd.UserError) as refused:
        vadd.train(codes_file, tmp_path / "run", **given)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "run").exists()


def test_a_run_opens_with_its_own_networks_only(codes_file: Path, tmp_path: Path, array_run: Path) -> None:
    vadd.train(codes_file, tmp_path / "run", **networks(), **{**SHORT, "steps": 2})
    with pytest.raises(vadd.UserError, match=r"custom networks: open it in Python, vadd\.load"):
        vadd.load(tmp_path / "run")
    with pytest.raises(vadd.UserError, match="do not fit the networks that were given"):
        vadd.load(tmp_path / "run", denoiser=OwnDenoiser(latent=3), recognizer=OwnRecognizer())
    with pytest.raises(vadd.UserError, match=r"network.denoiser is 'OwnDenoiser' there, 'Tied' here"):
        vadd.train(out=tmp_path / "run", resume=True, model="mdlm", denoiser=Tied(), steps=4)
    with pytest.raises(vadd.UserError, match="none of your own are needed"):
        vadd.load(array_run, **networks())
    assert RunDirectory(tmp_path / "run").recipe().network.kind == "own"
    assert build_model(vadd.load(array_run).recipe, kind_of((2, 3), 4)).positions == 6
