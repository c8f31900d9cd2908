"""Likelihoods of text: perplexities over a corpus, pads that are not scored, and what each number calls itself."""

import json
import math
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import SHORT_TRAINING, Command, train_in
from tests.data.test_documents import write
from tests.data.test_text import TINY_NETWORK
from tests.exact import properties
from vadd.build import recipe_for_text
from vadd.core import Particles, step_bound
from vadd.core.randomness import BOUNDS, step_generator
from vadd.errors import UserError
from vadd.evaluation import BoundSettings, evaluate
from vadd.evaluation.likelihood import NOT_A_BOUND, PADS_NOT_SCORED, NegativeLogLikelihood, measure_bounds
from vadd.recipe import Recipe
from vadd.report.tables import PADS_NOTE, bound_table
from vadd.runs.export import export
from vadd.runs.run import Run, RunDirectory, load

SENTENCES = "".join(f"{'ab' * (number % 5)} c{'d' * (number % 3)}\n" for number in range(60))
SHORT = (*TINY_NETWORK, *SHORT_TRAINING, "training.steps=10", "training.batch=8")


def sentence_recipe(folder: Path, *overrides: str) -> Recipe:
    path = write(folder / "sentences.txt", SENTENCES)
    padded = ("data.documents=line", "data.wrap=padded", "data.length=12")
    return recipe_for_text(path).with_overrides([*SHORT, *padded, *overrides])


@pytest.fixture(scope="module")
def padded_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A VADD on sentences of 3 to 13 characters, padded to 12; its corpus is gone."""
    folder = tmp_path_factory.mktemp("padded")
    assert train_in(folder / "run", sentence_recipe(folder)).finished
    (folder / "sentences.txt").rename(folder / "elsewhere.txt")
    return folder / "run"


@pytest.fixture(scope="module")
def padded(padded_run: Path) -> Run:
    return load(padded_run)


@pytest.fixture(scope="module")
def padded_mdlm(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("padded-mdlm")
    assert train_in(folder / "run", sentence_recipe(folder, "model=mdlm")).finished
    return load(folder / "run")


@pytest.fixture
def sentences(padded: Run) -> torch.Tensor:
    """Of 1, 3 and 10 letters, as the run reads them."""
    assert padded.tokenizer is not None
    specials = padded.tokenizer.specials
    assert specials.pad is not None
    rows = [padded.tokenizer.framed(ids, 12) for ids in padded.tokenizer.encode(["c", "abc", "ababababab"])]
    return torch.tensor([row + [specials.pad] * (12 - len(row)) for row in rows])


def test_a_perplexity_is_over_the_corpus_not_a_mean_over_its_examples() -> None:
    """6 and 4 nats for 3 and 1 tokens: exp(10 / 4), not the mean of exp(2) and exp(4)."""
    found = NegativeLogLikelihood.from_draws(torch.tensor([-6.0, -4.0]).double(), torch.tensor([3, 1]), valid=True)
    assert found.nats == 5
    assert found.perplexity == pytest.approx(math.exp(2.5))
    assert found.bpd == pytest.approx(2.5 / math.log(2))
    assert (found.examples, found.scored) == (2, 4)
    # What the examples have beyond their share, 2.5 nats a token: -1.5 and 1.5.
    error_per_token = math.sqrt((1.5**2 + 1.5**2) / 1) / math.sqrt(2) / 2
    assert found.perplexity_stderr == pytest.approx(math.exp(2.5) * error_per_token)


@given(
    nats=st.lists(st.floats(0.1, 50), min_size=2, max_size=8),
    tokens=st.integers(1, 20),
    copies=st.integers(1, 4),
)
@properties
def test_where_all_examples_are_equally_long_the_units_are_those_of_one_number_of_positions(
    nats: list[float], tokens: int, copies: int
) -> None:
    """The very same bits; the error of the perplexity is then that of the nats, scaled."""
    draws = -torch.tensor(nats * copies, dtype=torch.float64)
    each = NegativeLogLikelihood.from_draws(draws, torch.full((len(draws),), tokens), valid=True)
    assert each == NegativeLogLikelihood.from_draws(draws, tokens, valid=True)
    assert each.stderr is not None
    assert each.perplexity is not None
    assert each.perplexity_stderr == pytest.approx(each.perplexity * each.stderr / tokens, rel=1e-6, abs=1e-9)


def test_the_error_of_the_perplexity_is_what_repetition_shows() -> None:
    """2,000 corpora of 400 examples, 4 nats a token on average and lengths 1..20: the spread of the perplexities, known
    to 1.6%, against the mean of the stated errors. 10% apart by chance: less than 1e-8.
    """
    generator = torch.Generator().manual_seed(0)
    stated, perplexities = [], []
    for _ in range(2000):
        tokens = torch.randint(1, 21, (400,), generator=generator)
        noise = torch.randn(400, generator=generator, dtype=torch.float64)
        found = NegativeLogLikelihood.from_draws(-(4 * tokens + 3 * noise), tokens, valid=True)
        assert found.perplexity is not None
        assert found.perplexity_stderr is not None
        perplexities.append(found.perplexity)
        stated.append(found.perplexity_stderr)
    spread = float(torch.tensor(perplexities).std())
    assert sum(stated) / len(stated) == pytest.approx(spread, rel=0.1)


def test_only_pads_have_no_perplexity() -> None:
    with pytest.raises(UserError, match="nothing but pads"):
        NegativeLogLikelihood.from_draws(torch.zeros(3).double(), torch.zeros(3, dtype=torch.long), valid=True)


def test_a_run_on_padded_text_knows_its_pad_without_its_corpus(padded: Run, padded_run: Path, tmp_path: Path) -> None:
    assert padded.tokenizer is not None
    assert padded.model.pad == padded.data.pad == padded.tokenizer.specials.pad
    exported = load(export(RunDirectory(padded_run), tmp_path / "model").path)
    assert "are not scored: it is **not** a bound" in (tmp_path / "model" / "README.md").read_text()
    assert exported.model.pad == exported.data.pad == padded.model.pad
    with pytest.raises(UserError, match="needs the data that the model learned from"):
        _ = padded.data.train


def test_training_scores_no_pads(tmp_path: Path) -> None:
    """The prediction at the last position, which is a pad in all sentences of this file, stays as it began: uniform.

    The transformer's output layer starts at zero; were pads scored, their logit would have risen.
    """
    path = write(tmp_path / "short.txt", "ab c\n" * 40)
    padded = ("data.documents=line", "data.wrap=padded", "data.length=12", "model=mdlm", "training.ema=0")
    recipe = recipe_for_text(path).with_overrides([*SHORT, *padded, "training.steps=40"])
    assert train_in(tmp_path / "run", recipe).finished
    run = load(tmp_path / "run")
    pad = run.model.pad
    assert pad is not None
    masked = torch.full((1, 12), run.model.mask_value)
    logits = run.model.denoiser(masked, None, torch.ones(1), torch.ones(1, 12, dtype=torch.bool))
    share = logits.softmax(-1)[:, pad]
    assert float(share.max()) < 1 / run.model.vocab_size


def test_the_reported_numbers_are_over_scored_tokens(padded: Run, sentences: torch.Tensor) -> None:
    settings = BoundSettings(Particles(3), (2,), delbo_draws=2)
    found = json.loads(json.dumps(measure_bounds(padded, sentences, settings)))
    draws = -step_bound(padded.model, sentences, 2, Particles(3, rows_per_call=16), step_generator(0, BOUNDS, 0))
    (bound,) = found["bounds"]
    assert bound["scored"] == 3 + 5 + 12
    assert bound["nats"] == pytest.approx(float(draws.mean()))
    assert bound["perplexity"] == pytest.approx(math.exp(float(draws.sum()) / 20))
    assert (bound["valid"], bound["convention"]) == (False, PADS_NOT_SCORED)
    assert (found["delbo"]["warning"], found["delbo"]["convention"]) == (NOT_A_BOUND, PADS_NOT_SCORED)
    assert found["unit"] == "character"
    assert bound["bits_per_character"] is None


def test_pads_can_be_scored_and_then_the_bound_is_valid(padded: Run, sentences: torch.Tensor) -> None:
    settings = BoundSettings(Particles(3), (1, 2), score_pads=True)
    bounds = measure_bounds(padded, sentences, settings)["bounds"]
    assert isinstance(bounds, list)
    assert [bound["valid"] for bound in bounds] == [True, True]
    assert all("convention" not in bound for bound in bounds)
    assert bounds[0]["scored"] == 36
    custom = measure_bounds(padded, sentences, BoundSettings(Particles(3), (1, 2)))["bounds"]
    assert isinstance(custom, list)
    assert all(ours["nats"] > theirs["nats"] for ours, theirs in zip(bounds, custom, strict=True))
    assert padded.model.pad is not None


def test_the_table_names_the_unit_and_the_convention(padded: Run, padded_mdlm: Run, sentences: torch.Tensor) -> None:
    settings = BoundSettings(Particles(2), (2,), delbo_draws=1, delbo_particles=(3, 1))
    reports = [evaluate(run, (), bounds=settings, examples=sentences).report for run in (padded_mdlm, padded)]
    table = bound_table(reports)
    assert {"bits per character", "perplexity per character"} <= set(table.columns)
    assert PADS_NOTE in table.note
    assert [row[1:3] for row in table.text_rows()] == [
        ["step bound, T = 2", "no: pads not scored"],
        ["ELBO", "no: pads not scored"],
        ["step bound, T = 2", "no: pads not scored"],
        ["the paper's DELBO, K = 1", "no: not a likelihood bound"],
        ["the paper's DELBO, K = 3", "no: not a likelihood bound"],
    ]
    both = evaluate(padded, (), bounds=BoundSettings(Particles(2), (2,), score_pads=True), examples=sentences).report
    valid = bound_table([both])
    assert [row[2] for row in valid.rows] == ["yes"]
    assert PADS_NOTE not in valid.note


def test_a_list_of_particles_gives_a_delbo_for_each(padded: Run, sentences: torch.Tensor) -> None:
    many = BoundSettings(Particles(2), (1,), delbo_draws=2, delbo_particles=(4, 1))
    report = measure_bounds(padded, sentences, many)
    delbos = report["delbo_by_particles"]
    assert isinstance(delbos, list)
    assert [found["particles"] for found in delbos] == [1, 4]
    assert all((found["valid"], found["warning"]) == (False, NOT_A_BOUND) for found in delbos)
    assert report["delbo"] == delbos[-1]
    for found in delbos:
        alone = measure_bounds(padded, sentences, BoundSettings(Particles(found["particles"]), (1,), delbo_draws=2))
        assert alone["delbo"] == found
    with pytest.raises(UserError, match="at least 1, not 0"):
        BoundSettings(Particles(2), delbo_particles=(0, 1))


def test_bits_per_character_are_of_the_text_that_the_tokens_stand_for(tmp_path: Path) -> None:
    """Bytes: "é" is two of them and one character; EOS is scored and is none."""
    path = write(tmp_path / "words.txt", "été né\n" * 40)
    recipe = recipe_for_text(path).with_overrides(
        [*SHORT, "data.tokenizer=bytes", "data.documents=line", "data.length=9", "training.steps=2"]
    )
    assert train_in(tmp_path / "run", recipe).finished
    run = load(tmp_path / "run")
    x0 = torch.tensor([[*"été né".encode(), 256]]).repeat(4, 1)[:, :10]
    assert x0.shape == (4, 10)
    x0 = x0[:, :9]  # "été né" without its EOS: nine bytes, six characters
    report = measure_bounds(run, x0, BoundSettings(Particles(2), (1,)))
    assert report["unit"] == "byte"
    bounds = report["bounds"]
    assert isinstance(bounds, list)
    assert bounds[0]["bits_per_character"] == pytest.approx(bounds[0]["bpd"] * 9 / 6)
    columns = bound_table([{**evaluate(run, (), examples=x0).report, **report}]).columns
    assert {"bits per byte", "perplexity per byte", "bits per character"} <= set(columns)


def test_eval_takes_a_text_file_in_place_of_the_held_out_part(
    vadd_command: Command, padded_run: Path, tmp_path: Path
) -> None:
    text = write(tmp_path / "other.txt", "ab c\nabab\nc dd\n")
    options = ("--bound", "2", "--particles", "2", "--draws", "2", "--json", tmp_path / "numbers.json")
    done = vadd_command("eval", padded_run, "--data", text, "--delbo-particles", "1,3", *options)
    assert (done.code, done.err) == (0, "")
    report = json.loads((tmp_path / "numbers.json").read_text())
    assert report["bounds"][0]["examples"] == 3
    assert report["bounds"][0]["scored"] == 3 * (4 + 2)
    assert [found["particles"] for found in report["delbo_by_particles"]] == [1, 3]
    assert "Pads are not scored" in " ".join(done.out.split())
    scored = vadd_command("eval", padded_run, "--data", text, "--score-pads", *options)
    assert scored.code == 0
    assert json.loads((tmp_path / "numbers.json").read_text())["bounds"][0]["valid"] is True


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("strange.txt", "ab z\n", "the character 'z' is not among the 5 characters of this tokenizer"),
        ("nothing.txt", "", "too few for one sequence"),
        ("missing.txt", None, "there is no file"),
    ],
)
def test_a_text_that_cannot_be_read_is_one_line(
    vadd_command: Command, padded_run: Path, tmp_path: Path, name: str, content: str | None, message: str
) -> None:
    if content is not None:
        write(tmp_path / name, content)
    done = vadd_command("eval", padded_run, "--data", tmp_path / name)
    assert done.code == 2
    assert message in done.err
    assert len(done.err.splitlines()) == 1


def test_a_run_that_is_not_on_text_still_wants_an_array(vadd_command: Command, vadd_run: Path, tmp_path: Path) -> None:
    done = vadd_command("eval", vadd_run, "--data", write(tmp_path / "some.txt", "text"))
    assert done.code == 2
    assert "is not a readable .npy file" in done.err
