"""Language models of the library transformers as denoisers: at step 0 the library's own function."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import vadd
from tests.helpers.commands import Command
from tests.helpers.language_models import DECODER, FAMILIES, WORDS, language_model, write_tokenizer
from vadd.errors import UserError
from vadd.kinds.text.kind import TextKind
from vadd.kinds.text.subwords import read_tokenizer_json
from vadd.networks import PretrainedDenoiser, TransformersSettings
from vadd.recipe import build_model
from vadd.training.start import read_pretrained

LENGTH = 5
SHORT = ("training.steps=3", "training.batch=8", "training.evaluate_every=3", "training.warmup_steps=1")
LATENT = ("latent.dim=2", "network.recognizer.width=8", "network.recognizer.blocks=1", "network.recognizer.heads=2")


def denoiser_of(folder: Path, latent_dim: int = 2, **settings: Any) -> PretrainedDenoiser:
    tokenizer = read_tokenizer_json(folder / "tokenizer.json")
    kind = TextKind((LENGTH,), tokenizer.vocab_size, tokenizer=tokenizer)
    built = TransformersSettings(model=str(folder), **settings).build_denoiser(kind, latent_dim)
    assert isinstance(built, PretrainedDenoiser)
    assert built.read_pretrained(str(folder)) == []
    return built.eval()


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("everywhere", "divided"), [(False, False), (True, False), (True, True)])
def test_at_step_0_it_is_the_model_of_the_library(family: str, everywhere: bool, divided: bool, tmp_path: Path) -> None:
    """Logits to 1e-5: other kernels attend, and fewer positions reach the output layer."""
    theirs = language_model(tmp_path, family)
    dim = 2 * LENGTH if divided else 2
    ours = denoiser_of(tmp_path, dim, latent_everywhere=everywhere, latent_divided=divided)
    ids = torch.tensor([[5, 4, 8, 4, 4], [4, 4, 4, 4, 4], [7, 9, 4, 11, 6]])  # 4 is the mask
    values = torch.from_numpy(read_tokenizer_json(tmp_path / "tokenizer.json").to_values(ids.numpy()))
    where, z = ids == 4, torch.randn(3, dim, generator=torch.Generator().manual_seed(0))
    assert torch.equal(values[where], torch.full((9,), ours.vocab_size)), "the mask is the last value"
    whole = {"attention_mask": torch.zeros(3, 1, LENGTH, LENGTH)} if FAMILIES[family] is DECODER else {}
    with torch.no_grad():
        expected = theirs(ids, **whole).logits
        if family == "Dream":
            expected = torch.cat([expected[:, :1], expected[:, :-1]], dim=1)
        kept = torch.tensor([number for number in range(len(WORDS)) if number != 4])
        logits = ours(values, z, torch.ones(3), where)
        assert torch.allclose(logits, expected[where][:, kept], atol=1e-5)
        ours.latent_input_weights()[0].normal_(generator=torch.Generator().manual_seed(0))
        assert not torch.allclose(ours(values, z, torch.ones(3), where), logits, atol=1e-2), "z has an effect"
        assert torch.allclose(ours(values, 0 * z, torch.ones(3), where), logits, atol=1e-5) == (
            float(ours.latent.hidden[0].bias.abs().max()) == 0  # type: ignore[union-attr, index]
        )


def test_a_latent_of_each_position_enters_at_that_position(tmp_path: Path) -> None:
    """What is added to the embedding at a position depends on its own numbers of z alone."""
    language_model(tmp_path, "bert")
    denoiser = denoiser_of(tmp_path, 2 * LENGTH, latent_divided=True)
    denoiser.latent_input_weights()[0].data.normal_(generator=torch.Generator().manual_seed(0))
    z = torch.randn(3, 2 * LENGTH, generator=torch.Generator().manual_seed(1))
    changed = z.clone()
    changed[:, 2:4] += 1
    assert denoiser.latent is not None
    moved = (denoiser.latent(changed)[0] != denoiser.latent(z)[0]).any(-1)
    assert moved.tolist() == [[False, True, False, False, False]] * 3
    settings = TransformersSettings(model=str(tmp_path), latent_divided=True)
    assert settings.divides_latent
    assert not TransformersSettings(model=str(tmp_path)).divides_latent
    with pytest.raises(UserError, match=r"choose latent\.per=position"):
        denoiser_of(tmp_path, 2, latent_divided=True)


def test_principal_embeddings_are_those_of_the_values_turned_and_scaled(tmp_path: Path) -> None:
    """Along orthogonal axes, of variance one: distances along all of them are Mahalanobis distances."""
    theirs = language_model(tmp_path, "bert").get_input_embeddings().weight.detach().double()
    denoiser = denoiser_of(tmp_path)
    ordered = theirs[denoiser.ids]
    found = denoiser.principal(theirs.shape[1]).double()
    rank = len(WORDS) - 1 if len(WORDS) <= theirs.shape[1] else theirs.shape[1]
    precision = torch.linalg.pinv(ordered.T.cov(correction=0), rtol=1e-6, hermitian=True)
    difference = ordered[0] - ordered[-1]
    assert torch.allclose((found[0] - found[-1])[:rank].square().sum(), difference @ precision @ difference, rtol=1e-3)
    assert torch.allclose(found[:, :rank].T.cov(correction=0), torch.eye(rank).double(), atol=1e-3)
    assert torch.equal(denoiser.principal(2), found[:, :2].float())


@pytest.mark.parametrize("family", ["bert", "qwen3"])
def test_every_weight_that_trains_has_a_gradient(family: str, tmp_path: Path) -> None:
    language_model(tmp_path, family)
    for train_body in (True, False):
        denoiser = denoiser_of(tmp_path, train_body=train_body)
        x = torch.full((2, LENGTH), denoiser.vocab_size)
        denoiser(x, torch.ones(2, 2), torch.ones(2), x > 0).logsumexp(-1).sum().backward()
        learning = {name for name, parameter in denoiser.named_parameters() if parameter.requires_grad}
        assert {name for name in learning if denoiser.get_parameter(name).grad is None} == set()
        assert any(name.startswith("body.") for name in learning) == train_body
        assert {"latent.writes.weight", "latent.hidden.0.bias"} <= learning


def test_a_run_trains_samples_infills_bounds_and_exports(
    vadd_command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lm").mkdir()
    language_model(tmp_path / "lm", "bert")
    text = "\n".join(["red cat runs", "blue dog sleeps", "green cat sleeps"] * 20)
    Path("pets.txt").write_text(text)
    changes = ("data.documents=line", "data.wrap=padded", f"data.length={LENGTH}", "network.train_body=false")
    network = ("network.kind=transformers", "network.model=lm", "network.latent_divided=true", "latent.per=position")
    done = vadd_command("train", "--data", "pets.txt", *network, *changes, *LATENT, *SHORT, "--out", "run")
    assert done.code == 0, done.err
    assert vadd_command("plan", "run/recipe.yaml", "--flops", "1e9").code == 0, "costs are counted without weights"
    run = vadd.load("run")
    before = denoiser_of(Path("lm")).body.state_dict()
    after = run.model.denoiser.body.state_dict()  # type: ignore[attr-defined]
    assert all(torch.equal(after[name], before[name]) for name in before), "a frozen body stays as it was read"
    assert run.tokenizer is not None
    assert run.tokenizer.vocab_size == len(WORDS) - 1
    expected = run.sample(6, steps=2, seed=1)
    known = np.full((1, LENGTH), -1)
    known[0, 0] = run.tokenizer.special_value("bos")
    assert run.infill(known)[0, 0] == known[0, 0]
    assert np.isfinite(run.bound((1, 2), particles=2, limit=4).bounds[1].nats)
    run.export("exported")
    assert str(tmp_path) not in Path("exported/recipe.yaml").read_text()
    model = build_model(run.recipe, run.kind)
    read_pretrained(model, run.recipe, torch.tensor([[3, 5, 3], [3, 5, 2]]))
    codes: torch.Tensor = model.latent.recognizer.codes.weight  # type: ignore[assignment, union-attr]
    assert torch.equal(codes, denoiser_of(Path("lm")).principal(2)), "tokens have codes by their embeddings"
    means: torch.Tensor = model.latent.prior.flow.means  # type: ignore[assignment, union-attr]
    assert torch.equal(means[:3], codes[[3, 5, 2]]), "the prior has components for the most frequent ones"
    (tmp_path / "lm").rename(tmp_path / "gone")
    assert torch.equal(vadd.load("exported").sample(6, steps=2, seed=1), expected), "the folder is needed no more"
    assert torch.equal(vadd.load("run").sample(6, steps=2, seed=1), expected)


def test_mistakes_are_one_line(vadd_command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    Path("pets.txt").write_text("red cat runs\nblue dog sleeps\n" * 20)
    for name in ("lm", "maskless", "odd", "weightless"):
        Path(name).mkdir()
        language_model(Path(name), "bert", [word for word in WORDS if name != "maskless" or word != "[MASK]"])
    Path("odd/config.json").write_text(json.dumps({"model_type": "t5", "vocab_size": 16}))
    Path("weightless/model.safetensors").unlink()
    write_tokenizer(tmp_path, [*WORDS, *map(str, range(9))])
    other = ("data.tokenizer=file", "data.tokenizer_path=tokenizer.json")
    mistakes = (
        (("network.model=maskless",), "has no mask token"),
        (("network.model=odd",), "architecture 't5'; those that work: bert, roberta"),
        (("network.model=lm", *other), "a vocabulary of 16 entries; the data have 20 values and the mask"),
        (("network.model=nobody/nothing",), "name its folder: network.model=DIR"),
        (("network.model=lm", "data.length=40"), "reads at most 32 positions, not 40"),
        (("network.model=weightless",), "cannot read the weights of weightless"),
        ((), "network.model is missing"),
    )
    for changes, said in mistakes:
        given = ("data.documents=line", "data.wrap=padded", "data.length=5", *LATENT, *SHORT, *changes)
        done = vadd_command("train", "--data", "pets.txt", "network.kind=transformers", *given, "--out", "new")
        assert done.code == 2, said
        assert said in done.err.splitlines()[-1]
        assert not Path("new").exists()


def test_without_the_library_one_line_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    language_model(tmp_path, "bert")
    monkeypatch.setitem(__import__("sys").modules, "transformers", None)
    with pytest.raises(UserError, match=r"pip install 'vadd\[text\]'"):
        denoiser_of(tmp_path)
