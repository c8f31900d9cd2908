"""Likelihoods of text: perplexities over a corpus, pads that are not scored, and what each number calls itself."""

import copy
import json
import math
from pathlib import Path
from typing import cast

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.commands import Command
from tests.helpers.exact import properties
from tests.helpers.files import write
from tests.helpers.text_runs import PADDED, SENTENCES, train_on_text
from vadd.core import Particles, step_bound
from vadd.core.host import BOUNDS, step_generator
from vadd.errors import UserError
from vadd.evaluation import BoundSettings, EvaluationOptions, evaluate
from vadd.evaluation.likelihood import measure_bounds
from vadd.evaluation.reports import NOT_A_BOUND, PADS_NOT_SCORED, TextMetrics, negative_log_likelihood
from vadd.evaluation.zero_shot import sample_entropies
from vadd.kinds.arrays import Array
from vadd.kinds.text.kind import TextKind
from vadd.kinds.text.tokenizers import Specials
from vadd.report.likelihood_tables import bound_table
from vadd.report.notes import NOTES
from vadd.run.directory import RunDirectory
from vadd.run.export import export
from vadd.run.loading import load
from vadd.run.run import Run


@pytest.fixture(scope="module")
def padded_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A VADD on padded sentences; its corpus is gone."""
    folder = tmp_path_factory.mktemp("padded")
    run = train_on_text(folder, SENTENCES, *PADDED)
    (folder / "learnt.txt").unlink()
    return run.directory.path


@pytest.fixture(scope="module")
def padded(padded_run: Path) -> Run:
    return load(padded_run)


@pytest.fixture(scope="module")
def padded_mdlm(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return train_on_text(tmp_path_factory.mktemp("padded-mdlm"), SENTENCES, *PADDED, "model=mdlm")


@pytest.fixture
def sentences(padded: Run) -> torch.Tensor:
    """Of 1, 3 and 10 letters, as the run reads them."""
    assert padded.tokenizer is not None
    specials = padded.tokenizer.specials
    rows = [[specials.bos, *ids, specials.eos] for ids in padded.tokenizer.encode(["c", "abc", "ababababab"])]
    return torch.tensor([row + [specials.pad] * (12 - len(row)) for row in rows])


def test_a_perplexity_is_over_the_corpus_not_a_mean_over_its_examples() -> None:
    """6 and 4 nats for 3 and 1 tokens: exp(10 / 4), not the mean of exp(2) and exp(4)."""
    found = negative_log_likelihood(torch.tensor([-6.0, -4.0]).double(), torch.tensor([3, 1]), valid=True)
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
    each = negative_log_likelihood(draws, torch.full((len(draws),), tokens), valid=True)
    assert each == negative_log_likelihood(draws, tokens, valid=True)
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
        found = negative_log_likelihood(-(4 * tokens + 3 * noise), tokens, valid=True)
        assert found.perplexity is not None
        assert found.perplexity_stderr is not None
        perplexities.append(found.perplexity)
        stated.append(found.perplexity_stderr)
    spread = float(torch.tensor(perplexities).std())
    assert sum(stated) / len(stated) == pytest.approx(spread, rel=0.1)


def test_only_pads_have_no_perplexity() -> None:
    with pytest.raises(UserError, match="nothing but pads"):
        negative_log_likelihood(torch.zeros(3).double(), torch.zeros(3, dtype=torch.long), valid=True)


def test_a_run_on_padded_text_knows_its_pad_without_its_corpus(padded: Run, padded_run: Path, tmp_path: Path) -> None:
    assert padded.tokenizer is not None
    assert padded.model.pad == padded.kind.pad == padded.tokenizer.specials.pad
    exported = load(export(RunDirectory(padded_run), tmp_path / "model").path)
    assert "are not scored: it is **not** a bound" in (tmp_path / "model" / "README.md").read_text()
    assert exported.model.pad == exported.kind.pad == padded.model.pad
    with pytest.raises(UserError, match="needs the data that the model learned from"):
        _ = padded.data.train


def test_training_scores_no_pads(tmp_path: Path) -> None:
    """The prediction at the last position, which is a pad in all sentences of this file, stays as it began: uniform.

    The transformer's output layer starts at zero; were pads scored, their logit would have risen.
    """
    run = train_on_text(tmp_path, "ab c\n" * 40, *PADDED, "model=mdlm", "training.ema=0", "training.steps=40")
    pad = run.model.pad
    assert pad is not None
    masked = torch.full((1, 12), run.model.mask_value)
    logits = run.model.denoiser(masked, None, torch.ones(1), torch.ones(1, 12, dtype=torch.bool))
    share = logits.softmax(-1)[:, pad]
    assert float(share.max()) < 1 / run.model.vocab_size


def test_the_reported_numbers_are_over_scored_tokens(padded: Run, sentences: torch.Tensor) -> None:
    settings = BoundSettings(Particles(3), (2,), delbo_draws=2)
    found = measure_bounds(padded, sentences, settings)
    draws = -step_bound(padded.model, sentences, 2, Particles(3, rows_per_call=16), step_generator(0, BOUNDS, 0))
    (bound,) = found.bounds
    assert bound.scored == 3 + 5 + 12
    assert bound.nats == pytest.approx(float(draws.mean()))
    assert bound.perplexity == pytest.approx(math.exp(float(draws.sum()) / 20))
    assert (bound.valid, bound.convention) == (False, PADS_NOT_SCORED)
    assert found.delbo is not None
    assert (found.delbo.warning, found.delbo.convention) == (NOT_A_BOUND, PADS_NOT_SCORED)
    assert found.unit == "character"
    assert bound.bits_per_character is None
    assert not found.scores_pads


def test_pads_can_be_scored_and_then_the_bound_is_valid(padded: Run, sentences: torch.Tensor) -> None:
    scored = measure_bounds(padded, sentences, BoundSettings(Particles(3), (1, 2), score_pads=True))
    assert [(bound.valid, bound.convention, bound.scored) for bound in scored.bounds] == [(True, None, 36)] * 2
    assert scored.scores_pads
    custom = measure_bounds(padded, sentences, BoundSettings(Particles(3), (1, 2)))
    assert all(ours.nats > theirs.nats for ours, theirs in zip(scored.bounds, custom.bounds, strict=True))
    assert padded.model.pad is not None


def test_the_table_names_the_unit_and_the_convention(padded: Run, padded_mdlm: Run, sentences: torch.Tensor) -> None:
    settings = BoundSettings(Particles(2), (2,), delbo_draws=1, delbo_particles=(3, 1))
    reports = [
        evaluate(run, (), bounds=settings, options=EvaluationOptions(examples=sentences)).report
        for run in (padded_mdlm, padded)
    ]
    table = bound_table(reports)
    assert {"bits per character", "perplexity per character"} <= set(table.columns)
    assert NOTES["pads"] in table.note
    assert [row[1:3] for row in table.text_rows()] == [
        ["step bound, T = 2", "no: pads not scored"],
        ["ELBO", "no: pads not scored"],
        ["step bound, T = 2", "no: pads not scored"],
        ["the paper's DELBO, K = 1", "no: not a likelihood bound"],
        ["the paper's DELBO, K = 3", "no: not a likelihood bound"],
    ]
    both = evaluate(
        padded,
        (),
        bounds=BoundSettings(Particles(2), (2,), score_pads=True),
        options=EvaluationOptions(examples=sentences),
    ).report
    valid = bound_table([both])
    assert [row[2] for row in valid.rows] == ["yes"]
    assert NOTES["pads"] not in valid.note


def test_a_list_of_particles_gives_a_delbo_for_each(padded: Run, sentences: torch.Tensor) -> None:
    many = BoundSettings(Particles(2), (1,), delbo_draws=2, delbo_particles=(4, 1))
    found = measure_bounds(padded, sentences, many)
    assert [delbo.particles for delbo in found.delbos] == [1, 4]
    assert all((delbo.valid, delbo.warning) == (False, NOT_A_BOUND) for delbo in found.delbos)
    for particles, delbo in zip((1, 4), found.delbos, strict=True):
        alone = measure_bounds(padded, sentences, BoundSettings(Particles(particles), (1,), delbo_draws=2))
        assert alone.delbo == delbo
    with pytest.raises(UserError, match="at least 1, not 0"):
        BoundSettings(Particles(2), delbo_particles=(0, 1))


def test_bits_per_character_are_of_the_text_that_the_tokens_stand_for(tmp_path: Path) -> None:
    """Bytes: "é" is two of them and one character; there are nine bytes and six characters."""
    options = ("data.tokenizer=bytes", "data.documents=line", "data.length=9", "training.steps=2")
    run = train_on_text(tmp_path, "été né\n" * 40, *options)
    x0 = torch.tensor([list("été né".encode())]).repeat(4, 1)
    report = evaluate(run, (), bounds=BoundSettings(Particles(2), (1,)), options=EvaluationOptions(examples=x0)).report
    assert report.likelihood is not None
    assert report.likelihood.unit == "byte"
    (bound,) = report.likelihood.bounds
    assert bound.bits_per_character == pytest.approx(bound.bpd * 9 / 6)
    assert {"bits per byte", "perplexity per byte", "bits per character"} <= set(bound_table([report]).columns)


@pytest.fixture(scope="module")
def letters(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """On padded lines of bytes."""
    folder = tmp_path_factory.mktemp("letters")
    return train_on_text(folder, "abc\nzzyx\nxy\n" * 20, *PADDED, "data.tokenizer=bytes", "training.steps=2")


def tokens_of(run: Run, text: str) -> torch.Tensor:
    """One row of bytes; ``<`` stands for BOS, ``|`` for EOS and ``.`` for a pad."""
    assert run.tokenizer is not None
    specials = run.tokenizer.specials
    known = {"<": specials.bos, "|": specials.eos, ".": specials.pad}
    return torch.tensor([[known.get(character, ord(character)) for character in text]])


def own_tokens(run: Run, tokens: torch.Tensor) -> list[Array]:
    assert isinstance(run.kind, TextKind)
    return run.kind.own_tokens(tokens.numpy())


def test_a_padded_text_ends_at_its_first_eos_in_texts_entropy_and_characters(letters: Run) -> None:
    """Of abc<eos>zzyx<eos>xy the four tokens abc<eos> count; of <bos>abab<eos> a and b are twice among six."""
    drawn, real = tokens_of(letters, "abc|zzyx|xy."), tokens_of(letters, "<abab|......")
    assert [letters.texts(drawn), letters.texts(real)] == [["abc"], ["abab"]]
    assert sample_entropies(own_tokens(letters, drawn)) == pytest.approx(math.log(4))
    assert sample_entropies(own_tokens(letters, real)) == pytest.approx(2 / 3 * math.log(3) + 1 / 3 * math.log(6))
    assert [cast(TextKind, letters.kind).characters(row.numpy()) for row in (drawn, real)] == [3, 4]


def test_a_padded_text_without_eos_is_all_that_is_no_pad(letters: Run) -> None:
    drawn = tokens_of(letters, "<ab.ab.ab.ab")
    assert letters.texts(drawn) == ["abababab"]
    assert [len(own) for own in own_tokens(letters, drawn)] == [9]
    assert sample_entropies(own_tokens(letters, tokens_of(letters, "............"))) == 0


def test_where_one_token_is_both_bos_and_eos_the_first_ends_nothing(letters: Run) -> None:
    assert letters.tokenizer is not None
    tokenizer = copy.copy(letters.tokenizer)
    tokenizer.specials = Specials(bos=256, eos=256, pad=257)
    for text, ids in (
        (b"abc", [256, *b"abc", 256, *b"xy"]),
        (b"abc", [*b"abc", 256, *b"xy"]),
        (b"", [256, 256, *b"xy"]),
    ):
        row = np.array([*ids, 257])
        assert tokenizer.text(row, padded=True) == text.decode()
        assert list(tokenizer.padded_document(row)) == ids[:-2]


def test_the_judge_of_padded_text_counts_no_token_behind_the_first_eos(
    letters: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn = tokens_of(letters, "abc|zzyx|xy.").repeat(4, 1)
    monkeypatch.setattr(letters, "sample", lambda *args, **kwargs: drawn)
    report = evaluate(letters, [1], 4).report
    found = report.by_steps(TextMetrics)[1]
    assert found.sample_entropy == pytest.approx(math.log(4))
    assert found.distinct_1 == 1 / 4, "four texts of one word each, the same in all"
    assert report.real_text is not None
    assert report.real_text.metrics.sample_entropy <= math.log(6), "of at most zzyx, BOS and EOS"


def test_eval_takes_a_text_file_in_place_of_the_held_out_part(
    vadd_command: Command, padded_run: Path, tmp_path: Path
) -> None:
    text = write(tmp_path / "other.txt", "ab c\nabab\nc dd\n")
    options = ("--bound", "2", "--particles", "2", "--json", tmp_path / "numbers.json", "--overwrite")
    done = vadd_command("eval", padded_run, "--data", text, "--delbo-particles", "1,3", "--draws", "2", *options)
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
