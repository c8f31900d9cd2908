"""Flows over latents that are divided among positions, readers that keep positions apart, and where mixtures begin.

Seeds are fixed. Comparisons of draws with densities are chi-square tests at level 1e-5, four of them: if the seeds are
ever changed, a correct package fails one with probability below 4e-5.
"""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.testing import assert_close

from tests.helpers.exact import all_sequences, chi_square_p_value, normal_log_density, properties, seeded
from tests.helpers.networks import flat_settings
from tests.helpers.priors import bent, bent_flow, plane
from vadd.core import FlowPrior
from vadd.networks.flows import LARGEST_LOG_SCALE, CouplingFlow, SequenceFlow, StateReader
from vadd.networks.short_transformer import ShortTransformerRecognizer
from vadd.networks.transformer_blocks import TransformerSize

DRAWS = 20_000
LEVEL = 1e-5
for_some_sizes = pytest.mark.parametrize(("positions", "share"), [(1, 1), (1, 3), (2, 1), (5, 1), (4, 2), (7, 3)])


def built(positions: int, share: int, seed: int = 0, *, context: int = 0, **settings: int) -> SequenceFlow:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return SequenceFlow(positions, share, context=context, **{"transforms": 4, "width": 12, **settings})


def bent_sequence_flow(
    positions: int, share: int, seed: int = 0, *, by: float = 0.3, context: int = 0, **settings: int
) -> SequenceFlow:
    """Far from the identity, in float64."""
    flow = built(positions, share, seed, context=context, **settings)
    bent(flow, seed, by)
    return flow.double()


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=seeded(seed), dtype=torch.float64)


def jacobian_by_position(flow: SequenceFlow, noise: Tensor, context: Tensor, *, of_context: bool) -> Tensor:
    """Largest |d z_i / d e_j| between the numbers of positions i and j: (N, N); with ``of_context``, by contexts."""
    found: tuple[Tensor, Tensor] = torch.autograd.functional.jacobian(flow.from_noise, (noise, context))  # type: ignore[no-untyped-call]
    chosen = found[int(of_context)].view(flow.positions, flow.share, flow.positions, -1)
    return chosen.abs().amax(dim=(1, 3))


# Densities


@pytest.mark.parametrize(("seed", "context"), [(0, 0), (1, 0), (0, 2), (1, 2)])
@torch.no_grad()
def test_a_flow_over_two_positions_is_a_density_and_its_draws_follow_it(seed: int, context: int) -> None:
    """The integral is 1 to 1e-5. Draws are counted in 64 squares of side 1 and outside of them, at level 1e-5; those of
    N(0, I) would not pass.
    """
    flow = bent_sequence_flow(2, 1, seed, by=0.15, context=context, kernel=3, width=6)
    told = normal(2 * context, seed=seed + 7) if context else None

    def for_all(rows: int) -> Tensor | None:
        return None if told is None else told.expand(rows, -1)

    grid, area = plane()
    mass = flow.log_prob(grid, for_all(len(grid))).exp() * area
    assert_close(float(mass.sum()), 1.0, rtol=0, atol=1e-5)

    def squares(z: Tensor) -> Tensor:
        place = (z + 4).floor().long()
        inside = ((place >= 0) & (place < 8)).all(1)
        return torch.where(inside, place[:, 0] * 8 + place[:, 1], 64)

    # Every square holds 20 x 20 points of the grid, none of them on its border.
    expected = torch.zeros(65, dtype=torch.float64).index_add(0, squares(grid), mass)
    expected = expected / expected.sum()
    noise = normal(DRAWS, 2, seed=seed)
    counts, of_normal = (
        squares(z).bincount(minlength=65).numpy() for z in (flow.from_noise(noise, for_all(DRAWS)), noise)
    )
    assert chi_square_p_value(counts, expected.numpy()) > LEVEL
    assert chi_square_p_value(of_normal, expected.numpy()) < LEVEL


@properties
@given(
    positions=st.integers(1, 4),
    share=st.integers(1, 3),
    context=st.integers(0, 2),
    transforms=st.integers(1, 5),
    seed=st.integers(0, 1000),
    numbers=st.lists(st.floats(-3, 3), min_size=12, max_size=12),
)
def test_the_density_of_a_draw_is_that_of_its_noise_over_the_stretching(
    positions: int, share: int, context: int, transforms: int, seed: int, numbers: list[float]
) -> None:
    """log_prob(from_noise(e)) = log N(e) - log |d from_noise / d e|, by autograd in float64, to 1e-6: the map that
    draws is the inverse of the one whose density is computed, with the same context.
    """
    flow = bent_sequence_flow(positions, share, seed, context=context, transforms=transforms)
    told = normal(positions * context, seed=seed) if context else None
    noise = torch.tensor(numbers[: flow.dim], dtype=torch.float64)
    stretching: Tensor = torch.autograd.functional.jacobian(lambda e: flow.from_noise(e, told), noise)  # type: ignore[no-untyped-call]
    expected = normal_log_density(noise).sum() - torch.linalg.slogdet(stretching).logabsdet
    assert_close(flow.log_prob(flow.from_noise(noise, told), told), expected, rtol=0, atol=1e-6)


@for_some_sizes
@pytest.mark.parametrize("context", [0, 2])
@torch.no_grad()
def test_the_couplings_backwards_undo_themselves_forwards(positions: int, share: int, context: int) -> None:
    """In float64 to 1e-9 of the largest number; neither way is the identity."""
    flow = bent_sequence_flow(positions, share, context=context)
    noise = normal(20, flow.dim)
    told = normal(20, positions * context, seed=1) if context else None
    z = flow.from_noise(noise, told)
    u = z.view(20, positions, share).transpose(1, 2)
    for coupling in flow.couplings:
        u, _ = coupling(u, None if told is None else told.view(20, positions, context).transpose(1, 2))
    back = u.transpose(1, 2).reshape(20, flow.dim)
    assert_close(back, noise, rtol=0, atol=1e-9 * float(z.abs().max().clamp(min=1)))
    assert not torch.allclose(z, noise)


@for_some_sizes
@torch.no_grad()
def test_a_flow_starts_as_the_identity(positions: int, share: int) -> None:
    """Whatever it is told: draws are their noise, bit for bit, and the density is N(0, I) to 1e-12."""
    flow = built(positions, share, context=2).double()
    noise, told = normal(20, flow.dim), normal(20, 2 * positions, seed=1)
    assert flow.noise_dim == flow.dim == positions * share
    assert torch.equal(flow.from_noise(noise, told), noise)
    assert_close(flow.log_prob(noise, told), normal_log_density(noise).sum(-1), rtol=0, atol=1e-12)


@torch.no_grad()
def test_no_coupling_stretches_by_more_than_its_limit() -> None:
    """However bad a step was: with weights moved by 100 the density at the origin stays finite, and what one coupling
    adds to the logarithm is at most 2 for each number.
    """
    flow = bent_sequence_flow(4, 2, by=100.0)
    z = normal(50, 2, 4)
    for coupling in flow.couplings:
        _, stretching = coupling(z, None)
        assert bool((stretching.abs() <= LARGEST_LOG_SCALE * 8).all())
    assert bool(flow.log_prob(torch.zeros(1, 8, dtype=torch.float64)).isfinite().all())


# What is changed, and what is read


@for_some_sizes
@pytest.mark.parametrize("transforms", [2, 5, 8])
@torch.no_grad()
def test_every_number_is_transformed_by_every_flow(positions: int, share: int, transforms: int) -> None:
    for seed in range(10):
        flow = bent_sequence_flow(positions, share, seed, transforms=transforms)
        noise = normal(20, flow.dim, seed=seed)
        assert bool((flow.from_noise(noise) != noise).any(dim=0).all())


@pytest.mark.parametrize(("positions", "share"), [(2, 1), (4, 2), (3, 3)])
def test_every_number_depends_on_every_other(positions: int, share: int) -> None:
    """After one round of the patterns and a kernel that reaches over the whole sequence: a full Jacobian."""
    flow = bent_sequence_flow(positions, share, transforms=8)
    found: Tensor = torch.autograd.functional.jacobian(flow.from_noise, normal(flow.dim))  # type: ignore[no-untyped-call]
    assert float(found.abs().min()) > 0


@for_some_sizes
@torch.no_grad()
def test_the_context_is_read_and_each_row_has_its_own(positions: int, share: int) -> None:
    """Draws row by row and of all rows agree to 1e-12."""
    flow = bent_sequence_flow(positions, share, context=3)
    noise, contexts = normal(4, flow.dim), normal(4, 3 * positions, seed=1)
    z = flow.from_noise(noise, contexts)
    assert not torch.allclose(z, flow.from_noise(noise, contexts.flip(0)))
    assert not torch.allclose(flow.log_prob(z, contexts), flow.log_prob(z, contexts.flip(0)))
    row_by_row = [flow.from_noise(noise[i : i + 1], contexts[i : i + 1]) for i in range(4)]
    assert_close(z, torch.cat(row_by_row), rtol=0, atol=1e-12 * float(z.abs().max().clamp(min=1)))


@for_some_sizes
@pytest.mark.parametrize("context", [0, 3])
@torch.no_grad()
def test_several_draws_for_each_row_with_expanded_contexts(positions: int, share: int, context: int) -> None:
    """(K, B, d), with contexts that are views of the same numbers K times, and single vectors (d,): to 1e-9 as alone,
    for densities and draws.
    """
    flow = bent_sequence_flow(positions, share, context=context, by=0.1)
    noise = normal(5, 4, flow.dim)
    told = normal(4, context * positions, seed=1) if context else None
    several = None if told is None else told.expand(5, 4, -1)
    z = flow.from_noise(noise, several)
    assert z.shape == noise.shape
    density = flow.log_prob(z, several)
    assert density.shape == (5, 4)
    for k in range(5):
        assert_close(z[k], flow.from_noise(noise[k], told), rtol=0, atol=1e-9)
        assert_close(density[k], flow.log_prob(z[k], told), rtol=0, atol=1e-9)
    alone = None if told is None else told[1]
    assert_close(flow.from_noise(noise[2, 1], alone), z[2, 1], rtol=0, atol=1e-9)
    assert_close(flow.log_prob(z[2, 1], alone), density[2, 1], rtol=0, atol=1e-9)


@pytest.mark.parametrize("share", [1, 2, 3])
def test_numbers_and_contexts_lie_position_after_position(share: int) -> None:
    """With a kernel of one position no other is seen: what a position draws depends on its own noise and on its own
    part of the context, and on nothing else, exactly.
    """
    flow = bent_sequence_flow(5, share, context=2, kernel=1)
    for of_context in (False, True):
        found = jacobian_by_position(flow, normal(5 * share), normal(10, seed=1), of_context=of_context)
        assert torch.equal(found > 0, torch.eye(5, dtype=torch.bool))


@pytest.mark.parametrize("share", [1, 2])
def test_the_own_part_of_the_context_reaches_every_position_and_one_coupling_sees_as_far_as_its_kernels(
    share: int,
) -> None:
    """Two convolutions of 3 positions see two to either side; of two couplings by place each changes every other
    position, so what is told two away reaches a position by its own coupling alone, and four away by both.
    """
    flow = bent_sequence_flow(11, share, context=2, kernel=3, transforms=2)
    found = jacobian_by_position(flow, normal(11 * share), normal(22, seed=1), of_context=True)
    away = (torch.arange(11)[:, None] - torch.arange(11)).abs()
    assert bool((found[away <= 2] > 0).all())
    assert bool((found[away > 4] == 0).all())


@pytest.mark.parametrize("kernel", [3, 7])
@pytest.mark.parametrize(("share", "context"), [(1, 0), (2, 0), (2, 1), (3, 2)])
@torch.no_grad()
def test_what_is_true_at_one_place_is_true_two_places_on(share: int, context: int, kernel: int) -> None:
    """Two windows of one sequence, the second two positions later: their draws agree at the positions they share, to
    1e-9, but for those that see a border, kernel - 1 for each coupling. Windows one position apart do not agree: every
    other position stays in turn.
    """
    transforms, margin = 4, 4 * (kernel - 1)
    positions = 2 * margin + 9
    flow = bent_sequence_flow(positions, share, context=context, kernel=kernel, by=0.1, transforms=transforms)
    noise, told = normal(positions + 2, share), normal(positions + 2, context, seed=1)

    def window(first: int) -> Tensor:
        part = slice(first, first + positions)
        drawn = flow.from_noise(noise[part].flatten(), told[part].flatten() if context else None)
        return drawn.view(positions, share)

    one, next_to_it, two_on = (window(first) for first in (0, 1, 2))
    inside = slice(margin, positions - margin - 2)
    assert_close(two_on[inside], one[2:][inside], rtol=0, atol=1e-9)
    assert not torch.allclose(next_to_it[inside], one[1:][inside], rtol=0, atol=1e-3)
    assert not torch.allclose(two_on[:margin], one[2:][:margin], rtol=0, atol=1e-9), "borders are seen"


@torch.no_grad()
def test_a_pulse_moves_with_its_input() -> None:
    """The change that a single number of the noise makes, moved by two positions with it, to 1e-9."""
    flow = bent_sequence_flow(61, 2, kernel=3, by=0.1)
    nothing = torch.zeros(61, 2, dtype=torch.float64)

    def change(place: int) -> Tensor:
        pulse = nothing.clone()
        pulse[place, 1] = 1.5
        return (flow.from_noise(pulse.flatten()) - flow.from_noise(nothing.flatten())).view(61, 2)

    here, there = change(28), change(30)
    assert float(here.abs().max()) > 0.1
    assert_close(there[2:], here[:-2], rtol=0, atol=1e-9)


@pytest.mark.parametrize("context", [0, 3])
@torch.no_grad()
def test_a_state_of_a_flow_fits_one_that_was_built_with_another_seed(context: int) -> None:
    one, other = (built(5, 2, seed, context=context) for seed in (0, 1))
    bent(one, 0)
    z, noise = torch.randn(6, 10, generator=seeded(0)), torch.randn(6, 10, generator=seeded(1))
    told = torch.randn(6, 5 * context, generator=seeded(2)) if context else None
    assert not torch.allclose(one.log_prob(z, told), other.log_prob(z, told))
    other.load_state_dict(one.state_dict())
    assert torch.equal(one.log_prob(z, told), other.log_prob(z, told))
    assert torch.equal(one.from_noise(noise, told), other.from_noise(noise, told))


@pytest.mark.parametrize("context", [0, 2])
def test_a_fit_moves_every_weight(context: int) -> None:
    """From a flow that is no longer the identity: gradients of every parameter, finite and not all zero. Of a fresh one
    only what writes has any.
    """
    flow = built(4, 2, context=context)
    z = torch.randn(50, 8, generator=seeded(0))
    told = torch.randn(50, 4 * context, generator=seeded(1)) if context else None
    names, weights = [name for name, _ in flow.named_parameters()], list(flow.parameters())
    fresh = dict(zip(names, torch.autograd.grad(flow.log_prob(z, told).mean(), weights), strict=True))
    assert {name for name, gradient in fresh.items() if gradient.any()} == {n for n in fresh if ".writes." in n}
    bent(flow, 0, by=0.1)
    for gradient in torch.autograd.grad(flow.log_prob(z, told).mean(), weights):
        assert bool(gradient.isfinite().all())
        assert bool(gradient.any())


def test_it_begins_where_it_is_whatever_the_examples() -> None:
    flow = built(3, 2)
    before = {name: value.clone() for name, value in flow.state_dict().items()}
    flow.start_at(5 + torch.randn(9, 6, generator=seeded(0)))
    assert all(torch.equal(value, before[name]) for name, value in flow.state_dict().items())


# Readers


class Labels(nn.Module):
    """Writes what its place says: mean 100 x_i + 10 i + j for number j of position i, and as log-std its negative."""

    def __init__(self, share: int) -> None:
        super().__init__()
        self.share = share

    def forward(self, x0: Tensor, xt: Tensor, t: Tensor) -> tuple[Tensor, Tensor]:
        places = 10.0 * torch.arange(xt.shape[1])[:, None] + torch.arange(self.share)
        mean = (100.0 * xt[..., None] + places).flatten(1)
        return mean, -mean


@pytest.mark.parametrize("share", [1, 2, 3])
def test_a_reader_with_shares_keeps_together_what_belongs_to_a_position(share: int) -> None:
    """For each position its means and then its log-stds; without shares all means come first."""
    xt = torch.tensor([[0, 3, 1, 2], [2, 2, 0, 1]])
    found = StateReader(Labels(share), share)(xt)
    assert found.shape == (2, 4 * 2 * share)
    for row in range(2):
        for i in range(4):
            mean = 100.0 * float(xt[row, i]) + 10.0 * i + torch.arange(share)
            assert torch.equal(found.view(2, 4, -1)[row, i], torch.cat([mean, -mean]))
    mean, log_std = Labels(share)(xt, xt, torch.ones(2))
    assert torch.equal(StateReader(Labels(share))(xt), torch.cat([mean, log_std], dim=1))


@pytest.mark.parametrize("share", [1, 2])
@torch.no_grad()
def test_what_is_read_at_a_position_reaches_the_flow_at_the_same_one(share: int) -> None:
    """With a reader and a flow that see single positions, another value at one changes the draws there and nowhere
    else, bit for bit.
    """
    flow = built(4, share, context=2 * share, kernel=1)
    prior = FlowPrior(bent(flow, 0, by=0.02), StateReader(Labels(share), share))
    xt = torch.tensor([[0, 3, 1, 2]])
    before = prior.draws(3, xt, seeded(0)).view(3, 4, share)
    for i in range(4):
        other = xt.clone()
        other[0, i] = 4
        changed = (prior.draws(3, other, seeded(0)).view(3, 4, share) != before).any(dim=2)
        assert torch.equal(changed, (torch.arange(4) == i).expand(3, 4))


@torch.no_grad()
def test_a_short_transformer_as_a_reader_writes_the_shares_of_its_positions() -> None:
    """Both orders hold the same numbers: shares are only sorted otherwise."""
    recognizer = ShortTransformerRecognizer(
        4,
        2,
        flat_settings("short-transformer", TransformerSize(width=16, blocks=1, heads=2, dropout=0.0)),
        latent_dim=12,
    )
    bent(recognizer, 0)
    xt = all_sequences(4, 3)[::7]
    mean, log_std = StateReader(recognizer)(xt).chunk(2, dim=1)
    own = StateReader(recognizer, 3)(xt).view(len(xt), 4, 2, 3)
    assert torch.equal(own[:, :, 0].flatten(1), mean)
    assert torch.equal(own[:, :, 1].flatten(1), log_std)


# Where a mixture begins

CORNERS = torch.tensor([[3.0, 3.0], [-3.0, 3.0], [3.0, -3.0], [-3.0, -3.0]])


def around_corners(count: int, seed: int) -> Tensor:
    """Draws with standard deviation 0.3 around each of four corners in turn."""
    return CORNERS.repeat(count // 4 + 1, 1)[:count] + 0.3 * torch.randn(count, 2, generator=seeded(seed))


@pytest.mark.parametrize("context", [0, 3])
@pytest.mark.parametrize("dim", [1, 2, 5])
@pytest.mark.parametrize("spare", [0, 4])
@torch.no_grad()
def test_components_begin_at_the_examples(dim: int, context: int, spare: int) -> None:
    """In their order; those beyond the components are not looked at, and nothing but the means has changed."""
    flow = bent_flow(dim, context, by=0.1, components=6).double()
    assert isinstance(flow, CouplingFlow)
    z = normal(6 + spare, dim)
    before = {name: value.clone() for name, value in flow.state_dict().items()}
    flow.start_at(z)
    assert flow.base is not None
    assert torch.equal(flow.base.means, z[:6])
    after = flow.state_dict()
    assert [name for name in after if not torch.equal(after[name], before[name])] == ["base.means"]


@pytest.mark.parametrize("context", [0, 3])
@torch.no_grad()
def test_the_density_rises_at_the_examples_and_at_others_like_them(context: int) -> None:
    """From components anywhere to components at 16 draws around four corners: by more than half a nat on average, at
    the draws and at 200 others.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        flow = CouplingFlow(2, context=context, transforms=4, width=12, components=16)
    examples, others = around_corners(16, 0), around_corners(200, 1)

    def told(rows: int) -> Tensor | None:
        return torch.randn(context, generator=seeded(2)).expand(rows, context) if context else None

    before = [flow.log_prob(z, told(len(z))).mean() for z in (examples, others)]
    flow.start_at(examples)
    after = [flow.log_prob(z, told(len(z))).mean() for z in (examples, others)]
    assert after[0] > before[0] + 0.5
    assert after[1] > before[1] + 0.5


@torch.no_grad()
def test_a_single_gaussian_begins_where_it_is() -> None:
    flow = bent_flow(3)
    before = {name: value.clone() for name, value in flow.state_dict().items()}
    flow.start_at(normal(5, 3).float())
    assert all(torch.equal(value, before[name]) for name, value in flow.state_dict().items())
