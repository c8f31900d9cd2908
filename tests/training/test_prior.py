"""Priors that are fitted to finished runs: better than N(0, I), beside weights that nobody touches."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import vadd
from tests.helpers.exact import seeded
from tests.helpers.files import contents
from tests.helpers.tiny import tiny_recipe, train_in
from vadd.core import FlowPrior, GaussianLatent, StandardNormal
from vadd.data import DiscreteDataset
from vadd.errors import UserError
from vadd.networks.flows import CouplingFlow, SequenceFlow
from vadd.recipe import Recipe, load_recipe
from vadd.run.directory import PriorName, RunDirectory
from vadd.run.export import export
from vadd.run.priors import prior_records
from vadd.run.run import Run
from vadd.training import prior as fitting
from vadd.training.prior import fit_prior, fit_priors_of_recipe

SMALL_FLOW = (
    "latent.flow.width=24",
    "latent.flow.transforms=4",
    "latent.flow.components=8",
    "latent.flow.context=6",
    "latent.flow.batch=128",
)
NAMES: list[PriorName] = ["flow", "conditional"]


class Bumps(nn.Module):
    """A posterior whose mean is one of four corners, by which of the two values are large: in all far from normal, and
    known as soon as the values are.
    """

    def forward(self, x0: Tensor, xt: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        mean = torch.where(x0 >= 4, 3.0, -3.0)
        return mean, torch.full_like(mean, -1.0)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """On uniform pairs of 8 values: a run of 30 steps with checkpoints at 10, 20 and 30."""
    path = tmp_path_factory.mktemp("runs") / "run"
    assert train_in(path, tiny_recipe(*SMALL_FLOW, "latent.flow.steps=60")).finished
    return path


@pytest.fixture
def run_path(trained: Path, tmp_path: Path) -> Path:
    shutil.copytree(trained, tmp_path / "run")
    return tmp_path / "run"


def uniform_pairs(count: int, seed: int) -> Tensor:
    return torch.randint(8, (count, 2), generator=seeded(seed))


@pytest.fixture
def far_from_normal(run_path: Path) -> Run:
    run = vadd.load(run_path, prior="trained")
    assert isinstance(run.model.latent, GaussianLatent)
    run.model.latent.recognizer = Bumps()
    run.recipe = run.recipe.with_overrides(["latent.flow.learning_rate=0.01"])
    run.data = DiscreteDataset("pairs", 8, (2,), uniform_pairs(2000, 0), uniform_pairs(1000, 1))
    return run


def test_the_fitted_prior_is_nearer_to_what_the_recognition_model_writes(far_from_normal: Run) -> None:
    """On held-out examples, after 200 steps. KL(r || N) is sum_j (9 + e^-2 - 1) / 2 + 1, about 10.1 nats; no prior
    comes below the mutual information of x and z, 2 ln 2 for bumps that do not meet, but for the error of 1000 draws.
    """
    fitted = fit_prior(far_from_normal, "flow", steps=200)
    assert fitted.kl_normal == pytest.approx(2 * ((9 + torch.e**-2 - 1) / 2 + 1), abs=1e-4)
    assert 1.2 < fitted.kl < 0.5 * fitted.kl_normal
    assert fitted.steps == 200


class Points(Bumps):
    """Each pair is a point of its own in z."""

    def forward(self, x0: Tensor, xt: Tensor, t: Tensor, labels: Tensor | None = None) -> tuple[Tensor, Tensor]:
        return x0.float() / 2, torch.full(x0.shape, -3.0)


def test_a_fit_ends_before_it_learns_single_examples(far_from_normal: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty examples of 64 pairs: a prior that is fitted to the end has nothing left for the other pairs."""
    assert isinstance(far_from_normal.model.latent, GaussianLatent)
    far_from_normal.model.latent.recognizer = Points()
    far_from_normal.data = DiscreteDataset("pairs", 8, (2,), uniform_pairs(40, 0), uniform_pairs(1000, 1))
    early = fit_prior(far_from_normal, "flow", steps=200)
    monkeypatch.setattr(fitting, "ASIDE_SHARE", 0.0)
    late = fit_prior(far_from_normal, "flow", steps=200)
    assert early.steps < late.steps == 200
    assert early.kl < late.kl


def test_a_conditional_prior_reads_what_is_known(far_from_normal: Run) -> None:
    """With the first value known the first number of z is all but known, and the density of z rises by up to ln 2; with
    both known once more. Asked for is 0.3 nats each time, on 1000 held-out examples, after 200 steps.
    """
    fit_prior(far_from_normal, "conditional", steps=200)
    run = vadd.load(far_from_normal.directory.path)
    assert isinstance(run.conditional, FlowPrior)
    x0 = uniform_pairs(1000, 2)
    mean, log_std = Bumps()(x0, x0, torch.ones(1000))
    z = mean + log_std.exp() * torch.randn(1000, 2, generator=seeded(3))
    nothing, first, both = torch.full_like(x0, 8), x0.clone(), x0
    first[:, 1] = 8
    levels = [float(run.conditional.log_prob(z[None], xt).mean()) for xt in (nothing, first, both)]
    assert levels[1] > levels[0] + 0.3
    assert levels[2] > levels[1] + 0.3


@pytest.mark.parametrize("name", NAMES)
def test_the_weights_of_the_run_and_all_other_files_stay_as_they_are(run_path: Path, name: PriorName) -> None:
    before = contents(run_path)
    fitted = fit_prior(vadd.load(run_path), name)
    after = contents(run_path)
    assert {file: after[file] for file in before} == before
    newest = RunDirectory(run_path).checkpoints()[-1].relative_to(run_path)
    added = {f"prior-{name}.safetensors", "priors.json", ".priors.lock"}
    lock = f"fitting-{name}.lock"
    assert after.keys() - before.keys() == {lock, *(f"{newest}/{file}" for file in added)}
    record = prior_records(run_path / newest)[name]
    assert (record.kl_normal, record.kl, record.steps) == (fitted.kl_normal, fitted.kl, 60)


def test_a_prior_lies_beside_the_weights_it_was_fitted_to(run_path: Path) -> None:
    """Not beside the newest, where the run was loaded with others."""
    other = RunDirectory(run_path).checkpoints()[0]
    fit_prior(vadd.load(run_path, checkpoint=int(other.name.removeprefix("step-"))), "flow", steps=3)
    assert list(prior_records(other)) == ["flow"]
    assert prior_records(RunDirectory(run_path).checkpoints()[-1]) == {}


def dropout_recipe(per: str) -> Recipe:
    """Digits with a residual network whose dropout is at work while a conditional prior is fitted; a latent of 3
    numbers in all, or of one for each of 64 positions.
    """
    latent = ("latent.dim=3",) if per == "example" else ("latent.dim=1", "latent.per=position")
    changes = ("network.width=16", "network.denoiser.blocks=1", "network.recognizer.blocks=1", *latent)
    short = ("training.steps=4", "training.batch=16", "training.checkpoint_every=4", "training.evaluate_every=4")
    return load_recipe("digits").with_overrides([*changes, *short, *SMALL_FLOW, "latent.flow.steps=12"])


@pytest.fixture(scope="module", params=["example", "position"])
def with_dropout(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "digits"
    assert train_in(path, dropout_recipe(request.param)).finished
    return path


class CrashError(Exception):
    """Stands for a power failure."""


def stop_at(step: int) -> vadd.progress.Progress:
    """Progress that raises after a step of the fit."""

    def tell(what: str, done: float = 0, total: float | None = None) -> None:
        if what.startswith("fitting") and done == step:
            raise CrashError

    return tell


def prior_of(path: Path, name: PriorName) -> bytes:
    return (RunDirectory(path).checkpoints()[-1] / f"prior-{name}.safetensors").read_bytes()


@pytest.mark.parametrize("name", NAMES)
def test_an_interrupted_fit_leaves_nothing_and_begins_anew(with_dropout: Path, tmp_path: Path, name: PriorName) -> None:
    whole, parts = (shutil.copytree(with_dropout, tmp_path / folder) for folder in ("whole", "parts"))
    torch.manual_seed(1)  # the state of the global generator must not matter
    undisturbed = fit_prior(vadd.load(whole), name)
    torch.manual_seed(2)
    before = contents(parts)
    with pytest.raises(CrashError):
        fit_prior(vadd.load(parts), name, progress=stop_at(5))
    assert contents(parts) == before | {f"fitting-{name}.lock": b""}
    again = fit_prior(vadd.load(parts), name)
    assert prior_of(whole, name) == prior_of(parts, name)
    assert (again.kl, again.kl_normal) == (undisturbed.kl, undisturbed.kl_normal)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("per", ["example", "position"])
def test_a_fit_to_fewer_examples_than_components_works(tmp_path: Path, name: PriorName, per: str) -> None:
    """Three training examples for 8 components: some begin at the same one, and no two at the same place."""
    recipe = tiny_recipe(*SMALL_FLOW, "training.steps=1", f"latent.per={per}")
    path = tmp_path / "few"
    assert train_in(path, recipe).finished
    run = vadd.load(path)
    run.data = DiscreteDataset("pairs", 8, (2,), uniform_pairs(3, 0), uniform_pairs(50, 1))
    fit_prior(run, name, steps=2)
    fitted = vadd.load(path, prior=name).model.latent
    assert isinstance(fitted, GaussianLatent)
    assert isinstance(fitted.prior, FlowPrior)
    assert bool(fitted.prior.draws(20, torch.full((1, 2), 8), seeded(0)).isfinite().all())
    flow = fitted.prior.flow
    assert isinstance(flow, CouplingFlow if per == "example" else SequenceFlow)
    if isinstance(flow, CouplingFlow):
        assert flow.base is not None
        assert len({tuple(mean) for mean in flow.base.means.tolist()}) == 8


@pytest.mark.parametrize("name", NAMES)
def test_a_fit_begins_at_the_examples(far_from_normal: Run, name: PriorName, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the first step the components of the prior and those of its average are where the recognition model
    writes: within 0.6 of its standard deviations, e^-1, of one of the four corners in both numbers. Eight pairs of a
    tenth of normal numbers lie there but for 3e-8.
    """
    begun: list[FlowPrior] = []

    def first_loss(fit: fitting._Fit, *_: object) -> None:
        begun.extend([fit.prior, fit.ema.averaged])
        raise CrashError

    monkeypatch.setattr(fitting._Fit, "_loss", first_loss)
    with pytest.raises(CrashError):
        fit_prior(far_from_normal, name, steps=2)
    for prior in begun:
        flow = prior.flow
        assert isinstance(flow, CouplingFlow)
        assert flow.base is not None
        assert float((flow.base.means.detach().abs() - 3).abs().max()) < 0.6 * torch.e**-1


def prior_in_use(run: Run) -> type[object]:
    assert isinstance(run.model.latent, GaussianLatent)
    return type(run.model.latent.prior)


def test_load_uses_the_fitted_prior_unless_it_is_told_not_to(run_path: Path, far_from_normal: Run) -> None:
    """With one z for all steps, which is what the prior is fitted for; a conditional one serves completions."""
    plain = vadd.load(run_path)
    before = plain.sample(2000, latent_policy="fixed")
    assert prior_in_use(plain) is StandardNormal
    assert plain.recipe.sampling.latent_policy == "resample"
    assert fit_prior(far_from_normal, "flow").helps
    fit_prior(far_from_normal, "conditional", steps=5)
    fitted = vadd.load(run_path)
    assert prior_in_use(fitted) is FlowPrior
    assert fitted.sampling.latent_policy == "fixed"
    assert fitted.conditional is not None
    assert not torch.equal(fitted.sample(2000), before)
    trained = vadd.load(run_path, prior="trained")
    assert prior_in_use(trained) is StandardNormal
    assert trained.conditional is None
    assert torch.equal(trained.sample(2000, latent_policy="fixed"), before)
    conditional = vadd.load(run_path, prior="conditional")
    assert isinstance(conditional.model.latent, GaussianLatent)
    assert conditional.model.latent.prior.conditional


def test_a_prior_that_is_worse_than_the_normal_is_used_only_by_its_name(run_path: Path) -> None:
    fit_prior(vadd.load(run_path, prior="trained"), "flow")
    file = RunDirectory(run_path).checkpoints()[-1] / "priors.json"
    records = json.loads(file.read_text())
    records["flow"]["kl"] = records["flow"]["kl_normal"] + 0.1
    file.write_text(json.dumps(records))
    assert prior_in_use(vadd.load(run_path)) is StandardNormal
    assert prior_in_use(vadd.load(run_path, prior="flow")) is FlowPrior


@pytest.mark.parametrize("name", NAMES)
def test_a_prior_that_is_not_there_is_asked_for_in_one_line(run_path: Path, name: PriorName) -> None:
    place = RunDirectory(run_path).checkpoints()[-1]
    command = "vadd fit-prior RUN" + (" --conditional" if name == "conditional" else "")
    with pytest.raises(UserError) as refused:
        vadd.load(run_path, prior=name)
    assert str(refused.value) == f"{place} has no {name} prior; fit one with: {command}"


def test_an_export_carries_the_priors_and_samples_alike(run_path: Path, far_from_normal: Run, tmp_path: Path) -> None:
    for name in NAMES:
        assert fit_prior(far_from_normal, name, steps=5).helps
    export(RunDirectory(run_path), tmp_path / "exported")
    exported, run = vadd.load(tmp_path / "exported"), vadd.load(run_path)
    assert prior_in_use(exported) is FlowPrior
    assert torch.equal(exported.sample(20, steps=2), run.sample(20, steps=2))
    half = torch.tensor([[3, -1], [-1, 5]]).repeat(10, 1)
    assert torch.equal(exported.infill(half), run.infill(half))
    with pytest.raises(UserError, match=r"is not a run: it is an exported model$"):
        fit_prior(exported, "flow")


def test_an_export_without_priors_has_none(run_path: Path, tmp_path: Path) -> None:
    export(RunDirectory(run_path), tmp_path / "exported")
    assert not list((tmp_path / "exported").glob("prior*"))
    assert prior_in_use(vadd.load(tmp_path / "exported")) is StandardNormal


def test_a_model_without_a_latent_needs_none(mdlm_run: Path) -> None:
    with pytest.raises(UserError) as refused:
        fit_prior(vadd.load(mdlm_run), "flow")
    assert str(refused.value) == f"{mdlm_run} has no latent: it is a model without one, like MDLM, and needs no prior"


def test_damaged_priors_are_named(run_path: Path, far_from_normal: Run) -> None:
    """A flipped byte, a missing file, records that are none; asked for the trained prior nobody looks at them."""
    assert fit_prior(far_from_normal, "flow", steps=2).helps
    place = RunDirectory(run_path).checkpoints()[-1]
    file, content = place / "prior-flow.safetensors", (place / "prior-flow.safetensors").read_bytes()
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    line = f"the prior in {place} is damaged: prior-flow.safetensors is missing, truncated or altered"
    for damage in (file.touch, file.unlink):
        damage()
        with pytest.raises(UserError) as refused:
            vadd.load(run_path)
        assert str(refused.value) == line
    file.write_bytes(content)
    assert prior_in_use(vadd.load(run_path)) is FlowPrior
    for text in ("[1]", "{", '{"flow": {"name": "flow"}}', '{"flow": 3}'):
        (place / "priors.json").write_text(text)
        with pytest.raises(UserError) as refused:
            vadd.load(run_path)
        assert str(refused.value) == f"{place / 'priors.json'} is damaged"
    assert prior_in_use(vadd.load(run_path, prior="trained")) is StandardNormal


def test_a_prior_of_another_size_does_not_fit(run_path: Path) -> None:
    fit_prior(vadd.load(run_path), "flow", steps=2)
    directory = RunDirectory(run_path)
    directory.write_recipe(directory.recipe().with_overrides(["latent.flow.width=16"]))
    told = r"^the flow prior in .* does not fit the recipe of its run: fit it anew: \S+ is \(24,\) there, \(16,\) here$"
    with pytest.raises(UserError, match=told):
        vadd.load(run_path)


@pytest.mark.parametrize(
    ("wanted", "fitted"), [("normal", []), ("flow", ["flow"]), ("conditional", ["flow", "conditional"])]
)
def test_what_the_recipe_asks_for_is_fitted_once(run_path: Path, wanted: str, fitted: list[str]) -> None:
    directory = RunDirectory(run_path)
    directory.write_recipe(directory.recipe().with_overrides([f"latent.prior={wanted}", "latent.flow.steps=2"]))
    assert [found.name for found in fit_priors_of_recipe(run_path)] == fitted
    assert fit_priors_of_recipe(run_path) == []
    assert list(prior_records(directory.checkpoints()[-1])) == fitted


def test_the_recipe_of_a_model_without_a_latent_asks_for_nothing(mdlm_run: Path) -> None:
    assert fit_priors_of_recipe(mdlm_run) == []
