"""The diffusion transformers in training: gradients, checkpointing, dropout, and what they learn."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.testing import assert_close

from tests.helpers.exact import seeded
from tests.helpers.networks import awaken, flat_settings, gradients
from tests.helpers.small_transformers import (
    DIM,
    NO_TIME,
    POSITIONS,
    SIZE,
    SMALL,
    VALUES,
    everywhere,
    latents,
    small_denoiser,
    small_recognizer,
    tokens,
)
from vadd.core import ExactCount, LinearSchedule, MaskedBatch, MaskedDiffusion, objective
from vadd.networks.transformer import TransformerDenoiser, TransformerRecognizer
from vadd.networks.transformer_blocks import TransformerSize


@pytest.fixture(autouse=True)
def _fixed_weights() -> None:
    torch.manual_seed(0)


@pytest.mark.parametrize("convolution", [0, 3])
def test_gradients_reach_every_parameter(convolution: int) -> None:
    denoiser, recognizer = small_denoiser(convolution=convolution), small_recognizer(convolution=convolution)
    awaken(denoiser)
    x0 = torch.arange(SIZE * POSITIONS).view(SIZE, POSITIONS) % VALUES
    xt = x0.masked_fill(tokens(1) > 2, VALUES)
    mean, log_std = recognizer(x0, xt, NO_TIME)
    logits = denoiser(xt, mean + log_std.exp() * latents(), NO_TIME, everywhere())
    logits.log_softmax(-1)[:, 0].sum().backward()
    for gradient in [*gradients(denoiser), *gradients(recognizer)]:
        assert gradient.isfinite().all()
        assert gradient.abs().sum() > 0


def test_checkpointing_changes_neither_values_nor_gradients() -> None:
    """With dropout: the recomputation must repeat the same draws."""
    networks = [
        (small_denoiser(dropout=0.3, **option), small_recognizer(dropout=0.3, **option))
        for option in ({"checkpointing": False}, {"checkpointing": True})
    ]
    awaken(networks[0][0])
    weights = torch.randn(SIZE * POSITIONS, VALUES, generator=seeded(2))
    outputs: list[Tensor] = []
    visits = [0, 0]
    for run, (denoiser, recognizer) in enumerate(networks):
        denoiser.load_state_dict(networks[0][0].state_dict())
        recognizer.load_state_dict(networks[0][1].state_dict())

        def count(*_: object, run: int = run) -> None:
            visits[run] += 1

        for branch in [*denoiser.body.attentions, *recognizer.body.perceptrons]:
            branch.register_forward_pre_hook(count)
        torch.manual_seed(1)
        mean, log_std = recognizer(tokens(values=VALUES), tokens(1), NO_TIME)
        logits = denoiser(tokens(1), mean + log_std, NO_TIME, everywhere())
        (weights * logits).sum().backward()
        outputs.append(logits)
    assert visits[1] == 2 * visits[0]
    assert_close(outputs[0], outputs[1])
    for plain, recomputed in zip(*networks, strict=True):
        assert_close(gradients(plain), gradients(recomputed), rtol=1e-4, atol=1e-5)


def test_checkpointing_recomputes_nothing_when_nothing_is_trained() -> None:
    network = small_denoiser(checkpointing=True)
    visits: list[nn.Module] = []
    network.body.attentions[0].register_forward_pre_hook(lambda branch, _: visits.append(branch))
    with torch.no_grad():
        network(tokens(), latents(), NO_TIME, everywhere())
    assert len(visits) == 1


def test_dropout_is_drawn_in_training_only() -> None:
    network = small_denoiser(dropout=0.5)
    awaken(network)
    inputs = (tokens(), latents(), NO_TIME, everywhere())
    assert not torch.allclose(network(*inputs), network(*inputs))
    network.eval()
    assert network(*inputs).equal(network(*inputs))


@pytest.mark.parametrize("convolution", [0, 3])
def test_mdlm_learns_a_periodic_pattern(convolution: int) -> None:
    """Each row repeats a cycle of four values from a random start: what is visible tells what is not."""
    size = TransformerSize(width=32, blocks=2, heads=2, dropout=0.0, convolution=convolution)
    denoiser = TransformerDenoiser(8, 4, flat_settings("transformer", size))
    model = MaskedDiffusion(denoiser, LinearSchedule())
    optimiser = torch.optim.Adam(model.parameters(), lr=5e-3)
    generator = seeded(0)
    losses: list[float] = []
    for _ in range(100):
        x0 = (torch.randint(4, (64, 1), generator=generator) + torch.arange(8)) % 4
        batch = MaskedBatch.of(x0, ExactCount()(64, 8, model.schedule, generator), model.mask_value)
        loss = objective(model(batch, 1.0, generator), 8).loss
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        losses.append(loss.item())
    assert losses[0] == pytest.approx(math.log(4))
    # No better mean than ln 4 / 8 is possible: one draw in eight hides everything, and the start of the cycle with it.
    assert sum(losses[-10:]) / 10 < 0.35
    x0 = (torch.arange(4)[:, None] + torch.arange(8)) % 4
    for first in (0, 1):
        where = (torch.arange(8) % 2 == first).expand_as(x0)
        guesses = denoiser(x0.masked_fill(where, model.mask_value), None, torch.ones(4), where).argmax(dim=1)
        assert guesses.equal(x0[where])


def test_denoiser_and_recognizer_learn_to_pass_a_coin_through_z() -> None:
    """Sequences of one value, all hidden: without z every position costs ln 2, with it none."""
    size = TransformerSize(**SMALL | {"blocks": 1})
    denoiser = TransformerDenoiser(POSITIONS, 2, flat_settings("transformer", size, condition=16), latent_dim=DIM)
    recognizer = TransformerRecognizer(POSITIONS, 2, flat_settings("transformer", size, condition=16), latent_dim=DIM)
    optimiser = torch.optim.Adam([*denoiser.parameters(), *recognizer.parameters()], lr=1e-2)
    x0 = torch.tensor([0, 1] * 4)[:, None].repeat(1, POSITIONS)
    xt, t = torch.full_like(x0, 2), torch.ones(len(x0))
    costs: list[float] = []
    for _ in range(80):
        mean, log_std = recognizer(x0, xt, t)
        z = mean + log_std.exp() * torch.randn_like(mean)
        loss: Tensor = F.cross_entropy(denoiser(xt, z, t, xt == 2), x0.flatten())
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        costs.append(loss.item())
    assert costs[0] == pytest.approx(math.log(2))
    assert sum(costs[-10:]) / 10 < 0.2
