"""Convolutional pyramids over images."""

from typing import Any, TypeVar

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.testing import assert_close

from tests.helpers.exact import seeded
from tests.helpers.networks import awaken, flat_settings
from vadd.core import check
from vadd.errors import UserError
from vadd.networks.pyramid import PyramidDenoiser, PyramidRecognizer, halvings

Network = TypeVar("Network", bound=nn.Module)
SHAPE, VALUES, LATENT = (8, 12, 2), 3, 4
POSITIONS = 8 * 12 * 2


def drawn(network: Network) -> Network:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        awaken(network)
    return network.eval().double()


def denoiser(values: int = VALUES, latent_dim: int | None = LATENT, time_features: int = 0) -> PyramidDenoiser:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        settings: dict[str, Any] = {"channels": 4, "width": 16, "blocks": 1, "time_features": time_features}
        return drawn(PyramidDenoiser(SHAPE, values, flat_settings("pyramid", **settings), latent_dim=latent_dim))


def tokens_of(values: int, rows: int = 3) -> Tensor:
    return torch.randint(values + 1, (rows, POSITIONS), generator=seeded(1))


def by_hand(state: dict[str, Tensor], tokens: Tensor, z: Tensor | None, values: int) -> Tensor:
    """All logits (B, N, V) of a pyramid of two levels with these weights, without channels-last and its modules."""

    def linear(name: str, x: Tensor) -> Tensor:
        return F.linear(x, state[f"{name}.weight"], state[f"{name}.bias"])

    def norm(name: str, x: Tensor) -> Tensor:
        return F.layer_norm(x, x.shape[-1:], state[f"{name}.weight"], state[f"{name}.bias"])

    def convolve(name: str, x: Tensor, **how: int) -> Tensor:
        return F.conv2d(x, state[f"{name}.weight"].contiguous(), state[f"{name}.bias"], **how)

    def seen_at(level: int, x: Tensor) -> Tensor:
        return F.silu(F.group_norm(x, 1, state[f"down.norms.{level}.weight"], state[f"down.norms.{level}.bias"]))

    height, width, channels = SHAPE
    planes = F.one_hot(tokens.view(-1, height, width, channels), values + 1).double()
    planes = planes.reshape(-1, height, width, channels * (values + 1)).permute(0, 3, 1, 2).contiguous()
    if "planes.mix.weight" in state:
        planes = convolve("planes.mix", planes, groups=channels)
    fine = seen_at(0, convolve("down.inputs.0", planes, stride=2, padding=1))
    coarse = seen_at(1, convolve("down.deeper.0", fine, stride=2, padding=1))
    hidden = linear("down.read", coarse.flatten(1))
    if z is not None:
        hidden = hidden + linear("latent.2", F.silu(linear("latent.0", z)))
    hidden = hidden + linear("blocks.0.4", F.silu(linear("blocks.0.1", norm("blocks.0.0", hidden))))
    up = linear("up.write.1", norm("up.write.0", hidden)).view(coarse.shape) + coarse
    up = F.pixel_shuffle(convolve("up.enlarge.0", F.silu(up)), 2) + fine
    up = up + convolve("up.mix.0", F.silu(up), padding=1)
    up = F.pixel_shuffle(convolve("up.last", F.silu(up), padding=1), 2)
    near = convolve("near.2", F.silu(convolve("near.0", planes, padding=1)))
    return ((up + near).permute(0, 2, 3, 1) + state["bias"]).reshape(len(tokens), POSITIONS, values)


@pytest.mark.parametrize("latent_dim", [None, LATENT])
@pytest.mark.parametrize("values", [2, 3, 20])
def test_logits_are_those_of_the_formula_at_the_positions_asked_for(values: int, latent_dim: int | None) -> None:
    """In float64 to 1e-10; with 20 values the planes are mixed down first."""
    network = denoiser(values, latent_dim)
    xt, where = tokens_of(values), torch.rand(3, POSITIONS, generator=seeded(2)) < 0.6
    z = None if latent_dim is None else torch.randn(3, latent_dim, generator=seeded(3), dtype=torch.float64)
    expected = by_hand(network.state_dict(), xt, z, values)[where]
    assert_close(network(xt, z, torch.ones(3).double(), where), expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("latent_dim", [None, LATENT])
@pytest.mark.parametrize("blank", [(0,), (1, 3), (0, 1, 2, 3)])
def test_examples_that_are_masked_whole_are_read_once_and_predicted_each_by_its_z(
    blank: tuple[int, ...], latent_dim: int | None
) -> None:
    """Logits and gradients are those of the formula, whichever rows of the batch are masked whole; to 1e-10."""
    network, xt = denoiser(latent_dim=latent_dim), tokens_of(VALUES, rows=4)
    xt[list(blank)] = VALUES
    where = torch.rand(4, POSITIONS, generator=seeded(2)) < 0.6
    z = None if latent_dim is None else torch.randn(4, latent_dim, generator=seeded(3), dtype=torch.float64)
    state = {name: tensor.clone().requires_grad_() for name, tensor in network.state_dict().items()}
    expected, found = by_hand(state, xt, z, VALUES)[where], network(xt, z, torch.ones(4).double(), where)
    assert_close(found, expected, rtol=0, atol=1e-10)
    found.square().sum().backward()
    expected.square().sum().backward()  # type: ignore[no-untyped-call]
    for name, parameter in network.named_parameters():
        assert_close(parameter.grad, state[name].grad, rtol=0, atol=1e-9)


def test_it_begins_with_even_odds() -> None:
    xt = tokens_of(2)
    logits = PyramidDenoiser(SHAPE, 2, flat_settings("pyramid"), latent_dim=LATENT)(
        xt, torch.randn(3, LATENT), torch.ones(3), xt == 2
    )
    assert not logits.any()


def test_every_pixel_is_told_of_every_other() -> None:
    network, xt = denoiser(), tokens_of(VALUES, rows=1)
    z, t, everywhere = torch.randn(1, LATENT).double(), torch.ones(1).double(), torch.ones_like(xt, dtype=torch.bool)
    before = network(xt, z, t, everywhere)
    for position in (0, POSITIONS // 2, POSITIONS - 1):
        changed = xt.clone()
        changed[:, position] = (changed[:, position] + 1) % (VALUES + 1)
        assert (network(changed, z, t, everywhere) != before).all()


def test_time_is_seen_where_it_is_asked_for() -> None:
    xt, z, t = tokens_of(VALUES), torch.randn(3, LATENT).double(), torch.ones(3).double()
    for features in (0, 4):
        network = denoiser(time_features=features)
        same = torch.equal(network(xt, z, t, xt == VALUES), network(xt, z, t / 2, xt == VALUES))
        assert same == (features == 0) == (not network.uses_time)


def test_the_recognizer_reads_both_states_and_one_state_for_all_as_if_it_were_many() -> None:
    recognizer = drawn(
        PyramidRecognizer(SHAPE, VALUES, flat_settings("pyramid", channels=4, width=16, blocks=1), latent_dim=LATENT)
    )
    x0, t = tokens_of(VALUES - 1), torch.ones(3).double()
    masked = torch.full((1, POSITIONS), VALUES).expand(3, -1)
    mean, log_std = recognizer(x0, masked, t)
    assert mean.shape == log_std.shape == (3, LATENT)
    assert_close((mean, log_std), recognizer(x0, masked.clone(), t), rtol=0, atol=1e-12)
    assert (recognizer(x0, x0, t)[0] != mean).all()
    assert (recognizer(x0.roll(1, 1), masked, t)[0] != mean).all()


@pytest.mark.parametrize(
    ("shape", "count"), [((2, 2, 1), 1), ((8, 8, 1), 1), ((16, 16, 3), 2), ((28, 28, 1), 2), ((32, 32, 3), 3)]
)
def test_images_are_halved_until_four_pixels_are_left_or_an_odd_number(shape: tuple[int, int, int], count: int) -> None:
    assert halvings(shape) == count


@pytest.mark.parametrize(
    ("shape", "said"), [((7, 8, 1), "7 x 8 pixels cannot be"), ((64,), "for images; these examples have")]
)
def test_what_cannot_be_halved_is_refused(shape: tuple[int, ...], said: str) -> None:
    with pytest.raises(UserError, match=said):
        PyramidDenoiser(shape, 2, flat_settings("pyramid"))


def test_it_keeps_the_contract_of_a_denoiser() -> None:
    recognizer = PyramidRecognizer(SHAPE, VALUES, flat_settings("pyramid", channels=4, width=16), latent_dim=LATENT)
    found = check(denoiser().float(), drawn(recognizer).float())
    assert found.ok, found
