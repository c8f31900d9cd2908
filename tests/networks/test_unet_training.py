"""The UNets in training: gradients, checkpointing, dropout, and what they learn."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.testing import assert_close

from tests.helpers.exact import seeded
from tests.helpers.networks import awaken, gradients
from tests.helpers.small_unets import (
    DIM,
    SIDE,
    SIZE,
    SMALL,
    VALUES,
    everywhere,
    latents,
    small_denoiser,
    small_recognizer,
    times,
    tokens,
)
from vadd.networks.unet import SiameseUnetRecognizer, UnetDenoiser, UnetSettings


@pytest.fixture(autouse=True)
def _fixed_weights() -> None:
    torch.manual_seed(0)


def test_gradients_reach_every_parameter() -> None:
    denoiser, recognizer = small_denoiser(3, latent_dim=DIM), small_recognizer(3)
    awaken(denoiser)
    awaken(recognizer)
    mean, log_std = recognizer(tokens(3), tokens(3, seed=1), times())
    logits = denoiser(tokens(3, seed=1), mean + log_std.exp() * latents(), times(), everywhere(3))
    logits.log_softmax(-1)[:, 0].sum().backward()
    for gradient in [*gradients(denoiser), *gradients(recognizer)]:
        assert gradient.isfinite().all()
        assert gradient.abs().sum() > 0


def test_checkpointing_changes_neither_values_nor_gradients() -> None:
    """With dropout: the recomputation must repeat the same draws."""
    networks = [
        (small_denoiser(latent_dim=DIM, dropout=0.3, **option), small_recognizer(dropout=0.3, **option))
        for option in ({"checkpointing": False}, {"checkpointing": True})
    ]
    weights = torch.randn(SIZE * SIDE * SIDE, VALUES, generator=seeded(2))
    outputs: list[Tensor] = []
    visits = [0, 0]
    for run, (denoiser, recognizer) in enumerate(networks):
        awaken(denoiser)
        awaken(recognizer)
        denoiser.load_state_dict(networks[0][0].state_dict())
        recognizer.load_state_dict(networks[0][1].state_dict())

        def count(*_: object, run: int = run) -> None:
            visits[run] += 1

        for block in [*denoiser.unet.body.down, *recognizer.unet.body.up]:
            block.register_forward_pre_hook(count)
        torch.manual_seed(1)
        mean, log_std = recognizer(tokens(), tokens(seed=1), times())
        logits = denoiser(tokens(seed=1), mean + log_std, times(), everywhere())
        (weights * logits).sum().backward()
        outputs.append(logits)
    assert visits[1] == 2 * visits[0]
    assert_close(outputs[0], outputs[1])
    for plain, recomputed in zip(*networks, strict=True):
        assert_close(gradients(plain), gradients(recomputed), rtol=1e-4, atol=1e-5)


def test_checkpointing_recomputes_nothing_when_nothing_is_trained() -> None:
    network = small_denoiser(checkpointing=True)
    visits: list[nn.Module] = []
    network.unet.body.middle_in.register_forward_pre_hook(lambda block, _: visits.append(block))
    with torch.no_grad():
        network(tokens(), None, times(), everywhere())
    assert len(visits) == 1


def test_dropout_is_drawn_in_training_only() -> None:
    network = small_denoiser(dropout=0.5)
    awaken(network)
    draws = [network(tokens(), None, times(), everywhere()) for _ in range(2)]
    assert not torch.allclose(*draws)
    network.eval()
    assert network(tokens(), None, times(), everywhere()).equal(network(tokens(), None, times(), everywhere()))


def test_weights_and_gradients_keep_the_plain_layout() -> None:
    """The activations are channels-last; saved weights and the optimiser's state should not be."""
    network = small_denoiser(latent_dim=DIM)
    awaken(network)
    network(tokens(), latents(), times(), everywhere()).sum().backward()
    assert all(tensor.is_contiguous() for tensor in [*network.state_dict().values(), *gradients(network)])


def test_denoiser_and_recognizer_learn_to_pass_a_coin_through_z() -> None:
    """Images of one colour, all hidden: without z every pixel costs ln 2, with it none."""
    size = UnetSettings(**SMALL | {"blocks": 1})
    denoiser = UnetDenoiser((SIDE, SIDE, 1), 2, size, latent_dim=DIM)
    recognizer = SiameseUnetRecognizer((SIDE, SIDE, 1), 2, size, latent_dim=DIM)
    optimiser = torch.optim.Adam([*denoiser.parameters(), *recognizer.parameters()], lr=1e-2)
    x0 = torch.tensor([0, 1] * 4)[:, None].repeat(1, SIDE * SIDE)
    xt, t = torch.full_like(x0, 2), torch.ones(len(x0))
    costs: list[float] = []
    for _ in range(60):
        mean, log_std = recognizer(x0, xt, t)
        z = mean + log_std.exp() * torch.randn_like(mean)
        loss: Tensor = F.cross_entropy(denoiser(xt, z, t, xt == 2), x0.flatten())
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        costs.append(loss.item())
    assert costs[0] == pytest.approx(math.log(2))
    assert sum(costs[-10:]) / 10 < 0.2
