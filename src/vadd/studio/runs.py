"""The runs that the page may open: those named on the command line, and those that it trains itself."""

import hashlib
import re
import shutil
import stat
import threading
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from vadd.data.image_folder import SUFFIXES
from vadd.errors import UserError
from vadd.run.directory import RunDirectory, check_model
from vadd.run.loading import load
from vadd.run.priors import prior_records
from vadd.run.run import Run
from vadd.run.status import read_status
from vadd.words import size_in_memory

Weights = tuple[Path | None, tuple[str, ...]]
"""The newest checkpoint, None for an exported model, and the checksums of the priors that were fitted to it."""


class OpenRuns:
    """Runs by name. No path comes from the page: another name opens nothing."""

    def __init__(self, paths: Sequence[Path] = ()) -> None:
        self._paths: dict[str, Path] = {}
        self._loaded: dict[str, tuple[Weights, Run]] = {}
        # Two of them: a request for names does not wait until weights are read.
        self._lock, self._loading = threading.RLock(), threading.Lock()
        for path in paths:
            self.add(path)

    def add(self, path: Path) -> str:
        """The name on the page: the folder's, with as many folders above it as tell it from the others."""
        check_model(path)
        with self._lock:
            for name, known in self._paths.items():
                if known.resolve() == path.resolve():
                    return name
            parts = path.resolve().parts[1:] if path.exists() else path.parts
            lengths = range(1, len(parts) + 1)
            name = next(each for n in lengths if (each := "/".join(parts[-n:])) not in self._paths)
            self._paths[name] = path
            return name

    def names(self) -> list[str]:
        """Those that have weights by now, in the order in which they came."""
        with self._lock:
            return [name for name, path in self._paths.items() if _has_weights(path)]

    def path(self, name: str) -> Path:
        with self._lock:
            if name not in self._paths:
                raise UserError(f"no run of the name {name!r} is open here")
            return self._paths[name]

    def get(self, name: str) -> Run:
        """With its newest weights: a run that is still training is followed."""
        path = self.path(name)
        with self._loading:
            newest = newest_weights(path)
            kept = self._loaded.get(name)
            if kept is None or kept[0] != newest:
                kept = self._loaded[name] = (newest, load(path))
            return kept[1]


def newest_weights(path: Path) -> Weights:
    kept = RunDirectory(path).checkpoints()
    if not kept:
        return None, ()
    return kept[-1], tuple(record.sha256 for _, record in sorted(prior_records(kept[-1]).items()))


def awaits_prior(path: Path) -> bool:
    """Whether a run has taken its steps, and the prior that its recipe asks for is not fitted yet."""
    recipe = RunDirectory(path).recipe()
    wanted = recipe.has_latent and recipe.latent.prior != "normal"
    return wanted and read_status(path).state == "finished" and not newest_weights(path)[1]


def _has_weights(path: Path) -> bool:
    """A run has some after its first checkpoint, an exported model always."""
    if RunDirectory(path).checkpoints():
        return True
    try:
        check_model(path)
    except UserError:
        return False
    return not RunDirectory(path).is_run()


LARGEST_FILE = 200 * 2**20
MOST_IMAGES = 20_000
LARGEST_UNPACKED = 10**9
MOST_PIXELS = 2**24
ACCEPTED = (".npy", ".csv", ".txt", ".zip")


def accept(upload: Path, place: Path) -> Path:
    """The file or folder below ``place`` that holds the data of ``upload``."""
    suffix, shown = upload.suffix.lower(), repr(upload.name if len(upload.name) <= 60 else f"{upload.name[:57]}...")
    if suffix not in ACCEPTED:
        raise UserError(f"{shown} is not one of {', '.join(ACCEPTED)}")
    size = upload.stat().st_size
    if not 0 < size <= LARGEST_FILE:
        raise UserError(f"{shown} has {size:,} bytes; from 1 to {size_in_memory(LARGEST_FILE)} are taken")
    with upload.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()[:8]
    stem = re.sub(r"[^A-Za-z0-9]+", "-", upload.stem).strip("-")[:32] or "data"
    place.mkdir(parents=True, exist_ok=True)
    target = place / f"{stem}-{digest}"
    if suffix == ".zip":
        return _images(upload, target, shown)
    if suffix == ".csv" and (array := _integers(upload)) is not None:
        np.save(kept := target.with_name(f"{target.name}.npy"), array)
        return kept
    if suffix != ".npy" and b"\0" in upload.read_bytes():
        raise UserError(f"{shown} is not text")
    kept = target.with_name(f"{target.name}{suffix}")
    shutil.copyfile(upload, kept)
    return kept


def _integers(upload: Path) -> "np.ndarray[tuple[int, ...], np.dtype[np.int64]] | None":
    """A .csv without names that holds integers alone is an array, not a table."""
    try:
        return np.loadtxt(upload, delimiter=",", dtype=np.int64, ndmin=2, encoding="utf-8")
    except (ValueError, OverflowError):
        return None


def _images(upload: Path, target: Path, shown: str) -> Path:
    try:
        with zipfile.ZipFile(upload) as archive:
            entries = [entry for entry in archive.infolist() if _is_image(entry, shown)]
            if not 2 <= len(entries) <= MOST_IMAGES:
                kinds = ", ".join(sorted(SUFFIXES))
                raise UserError(f"{shown} holds {len(entries)} images; from 2 to {MOST_IMAGES:,} are taken ({kinds})")
            if sum(entry.file_size for entry in entries) > LARGEST_UNPACKED:
                raise UserError(f"{shown} unpacks to more than {size_in_memory(LARGEST_UNPACKED)}")
            _unpack(archive, entries, target, shown)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError, ValueError) as error:
        shutil.rmtree(target, ignore_errors=True)
        if isinstance(error, UserError):
            raise
        raise UserError(f"{shown} is not a zip file that can be read") from None
    return target


def _is_image(entry: zipfile.ZipInfo, shown: str) -> bool:
    """By its name; an entry that points elsewhere spoils the whole archive."""
    name = entry.filename.replace("\\", "/")
    if name.startswith("/") or ".." in name.split("/") or re.match(r"^[A-Za-z]:", name):
        raise UserError(f"{shown} holds a file that points out of its folder; nothing of it is taken")
    if stat.S_ISLNK(entry.external_attr >> 16):
        raise UserError(f"{shown} holds a link; nothing of it is taken")
    hidden = any(part.startswith((".", "__MACOSX")) for part in name.split("/"))
    return not entry.is_dir() and not hidden and Path(name).suffix.lower() in SUFFIXES


def _unpack(archive: zipfile.ZipFile, entries: list[zipfile.ZipInfo], target: Path, shown: str) -> None:
    from PIL import Image

    target.mkdir(parents=True, exist_ok=True)
    for number, entry in enumerate(entries):
        file = target / f"{number:06d}{Path(entry.filename).suffix.lower()}"
        with archive.open(entry) as packed, file.open("wb") as unpacked:
            shutil.copyfileobj(packed, unpacked)  # no more than the size that the archive declares
        try:
            with Image.open(file) as image:
                pixels = image.width * image.height
        except Exception:
            raise UserError(f"an image in {shown} cannot be read (number {number + 1})") from None
        if pixels > MOST_PIXELS:
            raise UserError(f"an image in {shown} has {pixels:,} pixels; at most {MOST_PIXELS:,} are taken")
