"""Values as few numbers: the same as written out, and few weights."""

import pytest
import torch
from torch import Tensor

import vadd
from tests.helpers.networks import flat_settings
from vadd.networks import MlpDenoiser, SiameseMlpRecognizer
from vadd.networks.layers import FactorisedEmbedding, FactorisedReadout
from vadd.networks.perceptrons import ResidualDenoiser, ResidualRecognizer

POSITIONS, VOCAB_SIZE, WIDTH, FEATURES = 3, 5, 8, 2


def test_reading_is_a_sum_over_positions_of_each_ones_map_of_the_values_numbers() -> None:
    torch.manual_seed(0)
    embedding = FactorisedEmbedding(POSITIONS, VOCAB_SIZE, WIDTH, FEATURES)
    tokens = torch.tensor([[0, 5, 2], [4, 4, 1]])
    maps = embedding.mix.view(WIDTH, POSITIONS, FEATURES)
    expected = torch.einsum("wnf,bnf->bw", maps, embedding.table[tokens])
    torch.testing.assert_close(embedding(tokens), expected)
    one = tokens[:1].expand(4, -1)
    torch.testing.assert_close(embedding(one), expected[:1].expand(4, -1))


def test_writing_is_the_full_table_of_logits_at_the_positions_asked_for() -> None:
    torch.manual_seed(0)
    readout = FactorisedReadout(POSITIONS, VOCAB_SIZE, WIDTH, FEATURES)
    torch.nn.init.normal_(readout.bias)
    hidden = torch.randn(4, WIDTH)
    seen = readout.unmix(hidden).view(4, POSITIONS, FEATURES)
    whole: Tensor = torch.einsum("bnf,vf->bnv", seen, readout.table) + readout.bias
    where = torch.tensor([[1, 0, 1], [0, 0, 0], [0, 1, 0], [1, 1, 1]]).bool()
    torch.testing.assert_close(readout(hidden, where.flatten().nonzero()[:, 0]), whole[where])


@pytest.mark.parametrize("latent", [None, 2])
@pytest.mark.parametrize(
    ("kind", "denoiser", "recognizer"),
    [("mlp", MlpDenoiser, SiameseMlpRecognizer), ("residual", ResidualDenoiser, ResidualRecognizer)],
)
def test_the_networks_keep_to_their_protocol(
    kind: str,
    denoiser: type[MlpDenoiser | ResidualDenoiser],
    recognizer: type[SiameseMlpRecognizer | ResidualRecognizer],
    latent: int | None,
) -> None:
    settings = flat_settings(kind, width=WIDTH, value_embedding=FEATURES)
    network = denoiser(POSITIONS, VOCAB_SIZE, settings, latent_dim=latent)
    reader = None if latent is None else recognizer(POSITIONS, VOCAB_SIZE, settings, latent_dim=latent)
    assert vadd.check(network, reader).ok


def test_what_is_read_begins_at_the_scale_of_tables_whatever_the_number_of_positions() -> None:
    """The variance is 2 in expectation; the standard error over 256 outputs and 64 states is below 0.2."""
    torch.manual_seed(0)
    for positions in (2, 50):
        embedding = FactorisedEmbedding(positions, 7, 256, 16)
        read = embedding(torch.randint(8, (64, positions)))
        assert 1.2 < float(read.detach().var()) < 2.8


def test_a_smooth_start_begins_alike_for_neighbouring_values() -> None:
    torch.manual_seed(0)
    rows = FactorisedEmbedding(2, 100, 8, 16, smoothness=1.0).table.detach()[:100]
    near, far = (rows[1:] - rows[:-1]).norm(dim=1).mean(), (rows[50:] - rows[:50]).norm(dim=1).mean()
    assert near < 0.2 * far
