"""A latent that is heard only where enough is masked, whatever the denoiser: below its share the model has none.

All states of three positions with two values, for three denoisers that know nothing of the share. ``Silenced`` is the
same rule written into the denoiser, where nobody can tell; the model must be worth the same, for less work.
"""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from tests.helpers.bounds import (
    DoubleDenoiser,
    DoubleRecognizer,
    PriorGrid,
    assignment_bounds,
    bound_draws,
    exact_step_bound,
    grid_times,
    log_mean,
    mean_log,
    standard_error,
)
from tests.helpers.exact import LINEAR, TableDenoiser, TableRecognizer, all_sequences, nonempty_masks, seeded
from vadd.core import (
    GaussianLatent,
    LinearSchedule,
    MaskedBatch,
    MaskedDiffusion,
    Masking,
    Particles,
    sample,
    step_bound,
)
from vadd.networks import (
    MlpDenoiser,
    ShortTransformerDenoiser,
    ShortTransformerRecognizer,
    SiameseMlpRecognizer,
    TransformerSize,
)

POSITIONS, VALUES = 3, 2
NEVER = 1.1
"""More than all positions can hardly be masked."""
Networks = Callable[[], tuple[nn.Module, nn.Module, int]]
"""-> denoiser, recogniser and the dimensions of the latent."""


def table() -> tuple[nn.Module, nn.Module, int]:
    return TableDenoiser(POSITIONS, VALUES, seed=1, latent=True), TableRecognizer(POSITIONS, VALUES), 1


def perceptron() -> tuple[nn.Module, nn.Module, int]:
    torch.manual_seed(0)
    denoiser = MlpDenoiser(POSITIONS, VALUES, width=16, depth=1, latent_dim=1)
    recognizer = SiameseMlpRecognizer(POSITIONS, VALUES, width=16, depth=1, latent_dim=1)
    return DoubleDenoiser(denoiser), DoubleRecognizer(recognizer), 1


def short_transformer() -> tuple[nn.Module, nn.Module, int]:
    torch.manual_seed(0)
    size = TransformerSize(width=8, blocks=1, heads=2, dropout=0.0)
    denoiser = ShortTransformerDenoiser(POSITIONS, VALUES, size, latent_dim=POSITIONS)
    return denoiser, ShortTransformerRecognizer(POSITIONS, VALUES, size, latent_dim=POSITIONS), POSITIONS


any_denoiser = pytest.mark.parametrize("networks", [table, perceptron, short_transformer])
one_dimension = pytest.mark.parametrize("networks", [table, perceptron])
any_share = pytest.mark.parametrize(("share", "least"), [(1 / 3, 1), (0.5, 2), (2 / 3, 2), (1.0, 3), (NEVER, 4)])


class Silenced(nn.Module):
    """A denoiser that takes z for zero unless ``least`` positions are masked, and counts what it is shown."""

    uses_time = False

    def __init__(self, network: nn.Module, least: int) -> None:
        super().__init__()
        self.network, self.least = network, least
        self.positions, self.vocab_size = POSITIONS, VALUES
        self.sequences = 0

    def forward(self, xt: Tensor, z: Tensor | None, t: Tensor, where: Tensor) -> Tensor:
        assert z is not None
        self.sequences += len(xt)
        heard = (xt == VALUES).sum(dim=1) >= self.least
        logits: Tensor = self.network(xt, z * heard[:, None], t, where)
        return logits


def model_of(networks: Networks, share: float, particles: int = 1) -> MaskedDiffusion:
    denoiser, recognizer, dim = networks()
    latent = GaussianLatent(recognizer, dim, particles, heard_from=share)
    return MaskedDiffusion(denoiser, LinearSchedule(), latent).eval()


def silenced(networks: Networks, least: int) -> MaskedDiffusion:
    denoiser, recognizer, dim = networks()
    return MaskedDiffusion(Silenced(denoiser, least), LinearSchedule(), GaussianLatent(recognizer, dim)).eval()


def every_state() -> MaskedBatch:
    """Every x0 under every mask, the empty one included."""
    masks = torch.cat([torch.zeros(1, POSITIONS, dtype=torch.bool), nonempty_masks(POSITIONS)])
    x0 = all_sequences(POSITIONS, VALUES)
    masked = masks.repeat_interleave(len(x0), dim=0)
    ones = torch.ones(len(masked))
    return MaskedBatch.of(x0.repeat(len(masks), 1), Masking(masked, ones, ones), VALUES)


def two_latents(dim: int) -> Tensor:
    return torch.randn(2, len(every_state().x0), dim, generator=seeded(5), dtype=torch.float32)


@any_denoiser
@any_share
def test_below_its_share_predictions_do_not_depend_on_z_and_above_they_do(
    networks: Networks, share: float, least: int
) -> None:
    model, batch = model_of(networks, share), every_state()
    silent = batch.masked.sum(1) < least
    assert (~model.latent.listens(batch.masked)).equal(silent)
    everywhere = torch.ones_like(batch.masked)
    one, other = (model.predict(batch.xt, z, batch.t, everywhere) for z in two_latents(model.latent.dim))
    differ = (one - other).abs().view(len(batch.x0), -1).amax(1)
    assert (differ[silent] == 0).all()
    assert (differ[~silent] > 1e-4).all()


@any_denoiser
@any_share
def test_the_denoiser_is_given_zero_below_and_z_itself_above(networks: Networks, share: float, least: int) -> None:
    """Also where the masked positions are told instead of looked up."""
    model, batch = model_of(networks, share), every_state()
    everywhere, z = torch.ones_like(batch.masked), two_latents(model.latent.dim)[0]
    expected = silenced(networks, least).denoiser(batch.xt, z, batch.t, everywhere)
    assert model.predict(batch.xt, z, batch.t, everywhere).equal(expected)
    assert model.predict(batch.xt, z, batch.t, everywhere, batch.masked).equal(expected)


@any_denoiser
@any_share
def test_below_its_share_the_posterior_is_the_prior_and_above_the_recognisers(
    networks: Networks, share: float, least: int
) -> None:
    batch = every_state()
    silent = batch.masked.sum(1) < least
    found, always = (model_of(networks, each).posterior(batch) for each in (share, 0.0))
    assert found is not None
    assert always is not None
    for ours, theirs in ((found.mean, always.mean), (found.log_std, always.log_std)):
        assert (ours[silent] == 0).all()
        assert_close(ours[~silent], theirs[~silent])
        assert (theirs[~silent] != 0).any(dim=1).all(), "which is not the prior's"


@any_denoiser
@any_share
@pytest.mark.parametrize("particles", [1, 3])
def test_below_its_share_the_evidence_is_the_log_likelihood_without_a_latent(
    networks: Networks, share: float, least: int, particles: int
) -> None:
    """To the last digits for every draw, and without a KL; above there is one."""
    model, batch = model_of(networks, share, particles), every_state()
    silent = batch.masked.sum(1) < least
    with torch.no_grad():
        evidence = model(batch, 0.7, seeded(0))
        at_zero = model.log_likelihood(batch, torch.zeros(1, len(batch.x0), model.latent.dim), batch.masked)[0]
    assert (evidence.kl[silent] == 0).all()
    assert (evidence.kl[~silent] > 0).all()
    for found in (evidence.bound, evidence.reconstruction):
        assert_close(found[silent], at_zero[silent], check_dtype=False, rtol=0, atol=1e-6)
    assert ((evidence.bound - at_zero)[~silent].abs() > 1e-6).all()


@any_denoiser
@pytest.mark.parametrize("steps", [1, 2, 3])
def test_a_latent_that_is_never_heard_costs_one_particle_whose_bound_is_exact(networks: Networks, steps: int) -> None:
    """Every draw is the sum of log p(x_U | x_t) of some plan, by enumeration of the plans; z is only zero there."""
    plain = silenced(networks, least=POSITIONS + 1)
    zero = PriorGrid(torch.zeros(1, plain.latent.dim, dtype=torch.float32), torch.ones(1, dtype=torch.float64))
    exact = assignment_bounds(plain.denoiser, grid_times(steps), zero)
    x0 = all_sequences(POSITIONS, VALUES)
    for count in (1, 50):
        found = step_bound(model_of(networks, NEVER), x0, steps, Particles(count), seeded(steps))
        assert float((found - exact).abs().amin(0).max()) < 1e-6
    one, many = (step_bound(model_of(networks, NEVER), x0, steps, Particles(k), seeded(steps)) for k in (1, 50))
    assert_close(one, many, rtol=0, atol=1e-6)


@one_dimension
@any_share
@pytest.mark.parametrize("steps", [1, 2, 3])
def test_the_bound_integrates_z_out_where_it_is_heard_and_nowhere_else(
    networks: Networks, share: float, least: int, steps: int
) -> None:
    """A single particle of the prior averages to E_z log where z is heard and to the exact logarithm where it is not;
    with 400 all of it is the exact logarithm, less a bias below 0.02. 5 standard errors for each of eight examples, in
    all 480 comparisons: false alarm 3e-4 together.
    """
    hidden_rule, prior = silenced(networks, least).denoiser, PriorGrid.even()
    x0, model = all_sequences(POSITIONS, VALUES), model_of(networks, share)
    times = grid_times(steps)
    for particles, inner, repeats, slack in (
        (Particles(1, ("prior",)), mean_log, 1500, 1e-6),
        (Particles(400, ("prior",)), log_mean, 100, 0.02),
    ):
        exact = exact_step_bound(hidden_rule, LINEAR, times, prior, inner)
        drawn = bound_draws(model, x0, steps, particles, seeded(steps), repeats=repeats)
        assert bool(((drawn.mean(0) - exact).abs() <= 5 * standard_error(drawn) + slack).all())


@any_denoiser
def test_a_silent_state_is_shown_once_and_a_listening_one_to_every_particle(networks: Networks) -> None:
    x0, shown = torch.zeros(10, POSITIONS, dtype=torch.int64), []
    for share in (NEVER, 1.0):
        model = model_of(networks, share)
        counter = Silenced(model.denoiser, least=0)  # type: ignore[arg-type]
        step_bound(MaskedDiffusion(counter, model.schedule, model.latent), x0, 1, Particles(50), seeded(0))
        shown.append(counter.sequences)
    assert shown == [10, 500]


@any_denoiser
@any_share
def test_samples_are_those_of_a_denoiser_with_the_same_rule(networks: Networks, share: float, least: int) -> None:
    ours, theirs = (
        sample(model, 64, POSITIONS, seeded(0), latent="fixed").tokens
        for model in (model_of(networks, share), silenced(networks, least))
    )
    assert ours.equal(theirs)


def test_a_latent_that_is_always_heard_is_passed_on_untouched() -> None:
    """Without a multiplication by one: bit for bit what the denoiser would get without all this."""
    latent = GaussianLatent(TableRecognizer(POSITIONS, VALUES), dim=1)
    z = torch.randn(4, 1, generator=seeded(0))
    assert latent.heard(z, torch.zeros(4, POSITIONS, dtype=torch.bool)) is z
    assert latent.heard(None, torch.zeros(4, POSITIONS, dtype=torch.bool)) is None
