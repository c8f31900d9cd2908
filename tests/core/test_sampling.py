"""The sampler's habits: the grid, reproducibility, trajectories, what it asks of the network, and what it refuses."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from tests.helpers.exact import ConstantRecognizer, TableDenoiser, properties, seeded
from tests.helpers.networks import flat_settings
from vadd.core import GaussianLatent, LinearSchedule, MaskedDiffusion, Noise, NoLatent, Samples, sample, step_grid
from vadd.core.sampling import Grid, LatentPolicy
from vadd.errors import UserError
from vadd.networks import MlpDenoiser

POSITIONS, VALUES = 3, 4
POLICIES: list[LatentPolicy] = ["resample", "fixed"]


class Spy(TableDenoiser):
    """Remembers every call."""

    def __init__(self) -> None:
        super().__init__(POSITIONS, VALUES, latent=True)
        self.calls: list[tuple[Tensor, Tensor, Tensor, Tensor]] = []

    def forward(self, xt: Tensor, z: Tensor | None, t: Tensor, where: Tensor) -> Tensor:
        assert z is not None
        self.calls.append((xt.clone(), z.clone(), t.clone(), where.clone()))
        return super().forward(xt, z, t, where)


def vadd(denoiser: TableDenoiser | None = None) -> MaskedDiffusion:
    denoiser = TableDenoiser(POSITIONS, VALUES, latent=True) if denoiser is None else denoiser
    return MaskedDiffusion(denoiser, LinearSchedule(), GaussianLatent(ConstantRecognizer(0.0, 0.0), dim=1))


def recorded(count: int, steps: int, seed: int, policy: LatentPolicy = "resample") -> tuple[Samples, Tensor]:
    samples = sample(vadd(), count, steps, seeded(seed), latent_policy=policy, record=count)
    assert samples.trajectory is not None
    return samples, samples.trajectory


@pytest.mark.parametrize("grid", ["uniform", "cosine"])
@given(steps=st.integers(1, 400))
@properties
def test_a_grid_rises_from_zero_to_one(grid: Grid, steps: int) -> None:
    times = step_grid(steps, grid)
    assert times.shape == (steps + 1,)
    assert times.dtype == torch.float64
    assert times[0] == 0
    assert times[-1] == 1
    assert (times.diff() > 0).all()


def test_the_uniform_grid_is_even_and_the_cosine_grid_finer_towards_one() -> None:
    assert_close(step_grid(4), torch.tensor([0, 0.25, 0.5, 0.75, 1], dtype=torch.float64))
    assert_close(step_grid(3, "cosine"), torch.tensor([0, 0.5, 0.75**0.5, 1], dtype=torch.float64))
    assert (step_grid(20, "cosine").diff().diff() < 0).all()


@pytest.mark.parametrize("policy", POLICIES)
def test_the_same_seed_gives_the_same_samples(policy: LatentPolicy) -> None:
    first, again, other = (sample(vadd(), 50, 3, seeded(seed), latent_policy=policy).tokens for seed in (1, 1, 2))
    assert first.equal(again)
    assert not first.equal(other)


@given(count=st.integers(1, 12), steps=st.integers(1, 8), seed=st.integers(0, 2**32), policy=st.sampled_from(POLICIES))
@properties
def test_a_trajectory_runs_from_all_masked_to_the_sample_and_never_takes_back(
    count: int, steps: int, seed: int, policy: LatentPolicy
) -> None:
    samples, trajectory = recorded(count, steps, seed, policy)
    assert trajectory.shape == (steps + 1, count, POSITIONS)
    assert (trajectory[0] == VALUES).all()
    assert trajectory[-1].equal(samples.tokens)
    assert ((samples.tokens >= 0) & (samples.tokens < VALUES)).all()
    shown = trajectory != VALUES
    assert (shown[1:] | ~shown[:-1]).all()
    assert (trajectory[1:] == trajectory[:-1])[shown[:-1]].all()
    # The network is called exactly at the steps that reveal something.
    revealing = (shown[1:] & ~shown[:-1]).flatten(1).any(1).sum()
    assert samples.evaluations == revealing <= steps


def test_recording_does_not_change_the_samples_and_is_off_by_default() -> None:
    plain = sample(vadd(), 20, 4, seeded(0))
    assert plain.trajectory is None
    assert plain.tokens.equal(recorded(20, 4, 0)[0].tokens)


@pytest.mark.parametrize("record", [1, 7, 20, 100])
def test_only_the_first_samples_are_recorded_if_so_asked(record: int) -> None:
    trajectory = sample(vadd(), 20, 4, seeded(0), record=record).trajectory
    assert trajectory is not None
    assert trajectory.equal(recorded(20, 4, 0)[1][:, :record])


def test_after_every_step_it_is_told_how_often_the_network_was_called() -> None:
    """One sequence, most of whose steps reveal nothing."""
    told: list[int] = []
    samples = sample(vadd(), 1, 50, seeded(0), record=1, on_step=told.append)
    assert samples.trajectory is not None
    revealing = (samples.trajectory[1:] != samples.trajectory[:-1]).flatten(1).any(1)
    assert told == revealing.cumsum(0).tolist()
    assert told[-1] == samples.evaluations


def test_one_sequence_needs_no_more_evaluations_than_it_has_positions() -> None:
    assert sample(vadd(), 1, 200, seeded(0)).evaluations <= POSITIONS


def test_one_step_reveals_everything_in_one_evaluation() -> None:
    samples = sample(vadd(), 10, 1, seeded(0))
    assert samples.evaluations == 1
    assert (samples.tokens < VALUES).all()


def test_the_network_is_asked_at_the_revealed_positions_of_the_sequences_that_reveal_something() -> None:
    spy = Spy()
    samples = sample(vadd(spy), 30, 5, seeded(0))
    assert samples.evaluations == len(spy.calls) == 5
    assert sum(int(where.sum()) for *_, where in spy.calls) == 30 * POSITIONS
    for (xt, _, t, where), expected in zip(spy.calls, [1.0, 0.8, 0.6, 0.4, 0.2], strict=True):
        assert where.any(1).all()
        assert (xt[where] == VALUES).all()
        assert_close(t, torch.full_like(t, expected))


def test_a_fixed_latent_stays_and_a_resampled_one_is_new_at_each_step() -> None:
    seen = {}
    for policy in POLICIES:
        spy = Spy()
        sample(vadd(spy), 30, 5, seeded(0), latent_policy=policy)
        seen[policy] = [set(z[:, 0].tolist()) for _, z, _, _ in spy.calls]
    everything_fixed = set.union(*seen["fixed"])
    assert len(everything_fixed) == 30
    assert len(set.union(*seen["resample"])) == sum(len(values) for values in seen["resample"]) > 30


def test_sampling_leaves_no_graph_behind() -> None:
    assert not sample(vadd(), 2, 2, seeded(0)).tokens.requires_grad


@pytest.mark.parametrize("steps", [0, -3])
def test_fewer_steps_than_one_are_refused(steps: int) -> None:
    with pytest.raises(UserError, match=f"at least 1 step, not {steps}"):
        sample(vadd(), 2, steps, seeded(0))


@pytest.mark.parametrize("count", [0, -1])
def test_fewer_samples_than_one_are_refused(count: int) -> None:
    with pytest.raises(UserError, match=f"at least 1, not {count}"):
        sample(vadd(), count, 2, seeded(0))


def test_an_unknown_grid_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UserError, match=r"'cubic'.*uniform, cosine"):
        sample(vadd(), 2, 2, seeded(0), grid="cubic")


def test_an_unknown_latent_policy_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UserError, match=r"'frozen'.*resample, fixed"):
        sample(vadd(), 2, 2, seeded(0), latent_policy="frozen")


class PriorOfTheState(NoLatent):
    """A conditional prior: z tells what the sampler showed it."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[Tensor, Tensor]] = []

    def draw(self, xt: Tensor, t: Tensor, noise: Noise, labels: Tensor | None = None) -> None:
        self.seen.append((xt.clone(), t.clone()))


def test_the_prior_is_shown_the_state_and_the_time_it_may_depend_on() -> None:
    denoiser = MlpDenoiser(3, 2, flat_settings("mlp", width=8, depth=1))
    latent = PriorOfTheState()
    drawn = sample(MaskedDiffusion(denoiser, LinearSchedule(), latent), 5, 4, seeded(0), record=5)
    assert drawn.trajectory is not None
    assert [float(t[0]) for _, t in latent.seen] == [1.0, 0.75, 0.5, 0.25]
    for (xt, _), state in zip(latent.seen, drawn.trajectory, strict=False):
        assert torch.equal(xt, state)
