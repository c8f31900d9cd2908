"""A denoiser with a latent that begins as a trained one without: the same function, whatever z is."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn

from tests.helpers.exact import TableDenoiser, seeded
from tests.helpers.networks import flat_settings
from tests.helpers.priors import bent
from vadd.errors import UserError
from vadd.networks import MlpDenoiser
from vadd.networks.layers import DenoiserBase
from vadd.networks.perceptrons import ResidualDenoiser
from vadd.networks.pyramid import PyramidDenoiser
from vadd.networks.short_transformer import ShortTransformerDenoiser
from vadd.networks.transformer import TransformerDenoiser
from vadd.networks.transformer_blocks import TransformerSize
from vadd.networks.unet import UnetDenoiser, UnetSettings
from vadd.networks.warm_start import take_over

VALUES = 5
SMALL = TransformerSize(width=16, blocks=2, heads=2, dropout=0.0)
SMALL_UNET = UnetSettings(embedding=8, blocks=1, groups=4, pixel_embedding=4, dropout=0.0)


@dataclass(frozen=True)
class Kind:
    name: str
    positions: int
    latent_dim: int
    build: Callable[[int | None], nn.Module]
    """latent_dim or None -> the denoiser."""


KINDS = [
    Kind(
        "mlp",
        4,
        3,
        lambda d: MlpDenoiser(
            4, VALUES, flat_settings("mlp", width=16, depth=2, latent_frequencies=(1, 2)), latent_dim=d
        ),
    ),
    Kind(
        "mlp timed",
        4,
        3,
        lambda d: MlpDenoiser(4, VALUES, flat_settings("mlp", width=16, depth=2, time_features=4), latent_dim=d),
    ),
    Kind(
        "residual",
        4,
        3,
        lambda d: ResidualDenoiser(4, VALUES, flat_settings("residual", width=16, blocks=2), latent_dim=d),
    ),
    Kind(
        "pyramid",
        16,
        3,
        lambda d: PyramidDenoiser((4, 4, 1), VALUES, flat_settings("pyramid", channels=4, width=16), latent_dim=d),
    ),
    Kind("unet", 16, 3, lambda d: UnetDenoiser((4, 4, 1), VALUES, SMALL_UNET, latent_dim=d)),
    Kind(
        "transformer",
        6,
        3,
        lambda d: TransformerDenoiser(6, VALUES, flat_settings("transformer", SMALL, condition=8), latent_dim=d),
    ),
    Kind(
        "short-transformer",
        6,
        12,
        lambda d: ShortTransformerDenoiser(6, VALUES, flat_settings("short-transformer", SMALL), latent_dim=d),
    ),
]
for_each_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


def trained_mdlm(kind: Kind) -> nn.Module:
    """Its weights are away from where they start: no layer is zero."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return bent(kind.build(None), seed=1, by=0.2)


def new_vadd(kind: Kind) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(2)
        return kind.build(kind.latent_dim)


def states(kind: Kind) -> tuple[Tensor, Tensor, Tensor]:
    """xt, t and where something is masked."""
    xt = torch.randint(VALUES + 1, (7, kind.positions), generator=seeded(3))
    xt[0] = VALUES
    return xt, torch.rand(7, generator=seeded(4)), xt == VALUES


@for_each_kind
@torch.no_grad()
def test_at_first_the_logits_are_those_of_the_model_without_a_latent_whatever_z_is(kind: Kind) -> None:
    """Bit for bit."""
    mdlm, vadd = trained_mdlm(kind), new_vadd(kind)
    xt, t, where = states(kind)
    expected = mdlm(xt, None, t, where)
    z = [scale * torch.randn(7, kind.latent_dim, generator=seeded(5)) for scale in (0.0, 1.0, 30.0)]
    assert not torch.equal(vadd(xt, z[1], t, where), expected)
    take_over(vadd, mdlm.state_dict())
    for latents in z:
        assert torch.equal(vadd(xt, latents, t, where), expected)
    assert float(expected.std()) > 0.01, "else the comparison would prove little"


@for_each_kind
def test_the_latents_entrance_has_a_gradient_and_one_step_makes_it_heard(kind: Kind) -> None:
    mdlm, vadd = trained_mdlm(kind), new_vadd(kind)
    take_over(vadd, mdlm.state_dict())
    assert isinstance(vadd, DenoiserBase)
    (xt, t, where), z = states(kind), torch.randn(7, kind.latent_dim, generator=seeded(6))
    logits = vadd(xt, z, t, where)
    nn.functional.cross_entropy(logits, torch.arange(len(logits)) % VALUES).backward()  # type: ignore[no-untyped-call]
    entrance = vadd.latent_input_weights()
    assert entrance
    for parameter in entrance:
        assert not parameter.detach().any()
        assert parameter.grad is not None
        assert float(parameter.grad.abs().max()) > 1e-6
    with torch.no_grad():
        for parameter in entrance:
            assert parameter.grad is not None
            parameter.sub_(parameter.grad)
        assert not torch.equal(vadd(xt, z, t, where), vadd(xt, -z, t, where))


@for_each_kind
def test_all_weights_are_taken_over_and_named(kind: Kind) -> None:
    mdlm, vadd = trained_mdlm(kind), new_vadd(kind)
    taken = take_over(vadd, mdlm.state_dict())
    assert len(taken) == len(mdlm.state_dict())
    assert set(taken) <= set(dict(vadd.named_parameters()))
    counted = sum(dict(vadd.named_parameters())[name].numel() for name in taken)
    assert counted == sum(parameter.numel() for parameter in mdlm.parameters())
    left = {name for name, _ in vadd.named_parameters()} - set(taken)
    assert left
    assert all("latent" in name or name.endswith("modulate.weight") for name in left)


@for_each_kind
def test_missing_unknown_and_misshapen_weights_are_named_in_one_line_and_nothing_changes(kind: Kind) -> None:
    vadd, weights = new_vadd(kind), trained_mdlm(kind).state_dict()
    before = {name: tensor.clone() for name, tensor in vadd.state_dict().items()}
    missing, misshapen = sorted(weights)[0], sorted(weights)[-1]
    assert missing != misshapen
    spoiled = {name: tensor for name, tensor in weights.items() if name != missing}
    spoiled[misshapen] = weights[misshapen].new_zeros(*weights[misshapen].shape, 2)
    spoiled["stranger.weight"] = torch.zeros(2)
    with pytest.raises(UserError) as refused:
        take_over(vadd, spoiled)
    line = str(refused.value)
    assert line == (
        "the weights to start from do not fit: "
        f"missing: {missing}; unknown: stranger.weight; of another shape: {misshapen}"
    )
    assert all(torch.equal(tensor, before[name]) for name, tensor in vadd.state_dict().items())


def test_of_many_names_three_are_told() -> None:
    kind = KINDS[2]
    with pytest.raises(UserError, match=r"missing: \S+, \S+, \S+ and \d+ more$"):
        take_over(new_vadd(kind), {})


def test_a_network_of_another_size_is_refused() -> None:
    wide = ResidualDenoiser(4, VALUES, flat_settings("residual", width=24, blocks=2))
    with pytest.raises(UserError, match="of another shape: "):
        take_over(new_vadd(KINDS[2]), wide.state_dict())


def test_a_denoiser_that_cannot_begin_as_another_is_refused_by_name() -> None:
    with pytest.raises(UserError, match=r"^TableDenoiser cannot begin as a network without a latent$"):
        take_over(TableDenoiser(2, 2, latent=True), {})
