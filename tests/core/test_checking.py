"""``vadd.check``: networks that keep to the protocol pass, and each way of breaking it is named."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import vadd
from tests.helpers.networks import SMALL, small_model
from tests.helpers.own_networks import LATENT, OwnDenoiser, OwnRecognizer


@pytest.mark.parametrize("kind", SMALL)
def test_all_networks_of_the_package_pass(kind: str) -> None:
    model = small_model(kind)
    recognizer = model.latent.recognizer
    assert isinstance(recognizer, nn.Module)
    assert repr(vadd.check(model.denoiser, recognizer)) == "ok"


@pytest.mark.parametrize("positions", [1, 2, 6])
def test_a_plain_network_of_ones_own_passes(positions: int) -> None:
    denoiser = OwnDenoiser(positions)
    assert vadd.check(denoiser, OwnRecognizer(positions)).ok
    assert vadd.check(OwnDenoiser(positions, latent=None)).ok
    assert vadd.check(denoiser, latent_dim=LATENT).ok


def test_a_head_that_starts_at_zero_is_no_problem() -> None:
    denoiser = OwnDenoiser()
    nn.init.zeros_(denoiser.head.weight)
    before = {name: tensor.clone() for name, tensor in denoiser.state_dict().items()}
    assert vadd.check(denoiser, OwnRecognizer()) == vadd.check(OwnDenoiser(), OwnRecognizer())
    assert denoiser.training
    assert all(tensor.equal(before[name]) for name, tensor in denoiser.state_dict().items())


class ColumnMajor(OwnDenoiser):
    def forward(self, xt: Tensor, z: Tensor | None, t: Tensor, where: Tensor) -> Tensor:
        return self.logits(xt, z).transpose(0, 1)[where.T]


class Everywhere(OwnDenoiser):
    def forward(self, xt: Tensor, z: Tensor | None, t: Tensor, where: Tensor) -> Tensor:
        return self.logits(xt, z)


class WithTheMask(OwnDenoiser):
    def forward(self, xt: Tensor, z: Tensor | None, t: Tensor, where: Tensor) -> Tensor:
        return nn.functional.pad(self.logits(xt, z)[where], (0, 1))


class Deaf(OwnDenoiser):
    def forward(self, xt: Tensor, z: Tensor | None, t: Tensor, where: Tensor) -> Tensor:
        assert z is not None
        return self.logits(xt, 0 * z)[where]


class Blind(OwnDenoiser):
    def forward(self, xt: Tensor, z: Tensor | None, t: Tensor, where: Tensor) -> Tensor:
        return self.logits(torch.full_like(xt, self.vocab_size), z)[where]


class Noisy(OwnDenoiser):
    def forward(self, xt: Tensor, z: Tensor | None, t: Tensor, where: Tensor) -> Tensor:
        return self.logits(xt, z)[where] + torch.randn(())


class Gossiping(OwnDenoiser):
    def forward(self, xt: Tensor, z: Tensor | None, t: Tensor, where: Tensor) -> Tensor:
        logits = self.logits(xt, z)
        return (logits + logits.mean(0))[where]


class Timed(OwnDenoiser):
    def forward(self, xt: Tensor, z: Tensor | None, t: Tensor, where: Tensor) -> Tensor:
        return (self.logits(xt, z) * (1 + t)[:, None, None])[where]


class Writing(OwnDenoiser):
    def forward(self, xt: Tensor, z: Tensor | None, t: Tensor, where: Tensor) -> Tensor:
        logits = self.logits(xt, z)[where]
        xt.zero_()
        return logits


class Greedy(OwnDenoiser):
    def forward(self, xt: Tensor, z: Tensor | None, t: Tensor, where: Tensor) -> Tensor:
        logits = self.logits(xt, z)[where]
        return logits - logits.max()  # of nothing there is no maximum


class WithStatistics(OwnDenoiser):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(self.positions)

    def logits(self, xt: Tensor, z: Tensor | None) -> Tensor:
        normed: Tensor = self.norm(super().logits(xt, z))
        return normed


class SmallTable(OwnDenoiser):
    def forward(self, xt: Tensor, z: Tensor | None, t: Tensor, where: Tensor) -> Tensor:
        nn.functional.embedding(xt, torch.zeros(self.vocab_size, 2))  # one row short: the mask is a value too
        return self.logits(xt, z)[where]


@pytest.mark.parametrize(
    ("network", "said"),
    [
        (ColumnMajor, "in row-major order"),
        (Everywhere, "for these positions only"),
        (WithTheMask, "without the mask"),
        (Deaf, "do not depend on z"),
        (Noisy, "two answers to one question"),
        (Gossiping, "depend on the other examples"),
        (Timed, "uses_time is False, but the logits depend on t"),
        (Writing, "changes the tokens that it is given"),
        (Greedy, "asked for no position the denoiser raised"),
        (WithStatistics, "running statistics (norm.running_mean)"),
        (SmallTable, "raised IndexError"),
    ],
)
def test_each_broken_rule_is_named(network: type[OwnDenoiser], said: str) -> None:
    found = vadd.check(network(), OwnRecognizer())
    assert not found.ok
    assert any(said in problem for problem in found.problems), found
    assert "broken" in repr(found)


def test_what_may_be_meant_so_is_a_note() -> None:
    found = vadd.check(Blind(), OwnRecognizer())
    assert found.ok
    assert found.notes == ("the logits do not depend on the values that are known",)
    timed = OwnDenoiser()
    timed.uses_time = True
    assert vadd.check(timed, OwnRecognizer()).notes == (
        "denoiser.uses_time is True, but the logits do not depend on t",
    )


@pytest.mark.parametrize(
    ("attribute", "value", "said"),
    [
        ("positions", 0, "denoiser.positions is 0"),
        ("vocab_size", "4", "denoiser.vocab_size is '4'"),
        ("uses_time", None, "denoiser.uses_time is missing"),
    ],
)
def test_missing_attributes_are_named(attribute: str, value: Any, said: str) -> None:
    denoiser = OwnDenoiser()
    setattr(denoiser, attribute, value)
    assert said in vadd.check(denoiser).problems[0]


class Forgetful(OwnRecognizer):
    def forward(self, x0: Tensor, xt: Tensor, t: Tensor) -> Any:
        return super().forward(xt, xt, t)


class Single(OwnRecognizer):
    def forward(self, x0: Tensor, xt: Tensor, t: Tensor) -> Any:
        return super().forward(x0, xt, t)[0]


class Flat(OwnRecognizer):
    def forward(self, x0: Tensor, xt: Tensor, t: Tensor) -> Any:
        return tuple(each.flatten() for each in super().forward(x0, xt, t))


class Averaging(OwnRecognizer):
    def forward(self, x0: Tensor, xt: Tensor, t: Tensor) -> Any:
        return tuple(each + each.mean(0) for each in super().forward(x0, xt, t))


class Tired(OwnRecognizer):
    def forward(self, x0: Tensor, xt: Tensor, t: Tensor) -> Any:
        raise RuntimeError("no\nmore")


@pytest.mark.parametrize(
    ("network", "said"),
    [
        (Forgetful(), "does not depend on the masked values of x0"),
        (Single(), "needed are mean and log_std"),
        (Flat(), "needed are mean and log_std"),
        (Averaging(), "depends on the other examples"),
        (Tired(), "raised RuntimeError: no"),
        (print, "needed is a torch.nn.Module"),
    ],
)
def test_a_broken_recognition_model_is_named(network: Any, said: str) -> None:
    found = vadd.check(OwnDenoiser(), network)
    assert said in found.problems[0], found


def test_what_is_no_network_is_said_and_sizes_must_agree() -> None:
    assert "needed is a torch.nn.Module" in vadd.check(print).problems[0]
    assert "writes 2 numbers, and z has 3" in vadd.check(OwnDenoiser(), OwnRecognizer(), latent_dim=3).problems[0]
    assert "raised" in vadd.check(OwnDenoiser(latent=3), OwnRecognizer()).problems[0]
