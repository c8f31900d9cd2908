"""What visitors upload: looked at before it is believed, never unpickled, unpacked within limits and under names of our
own.
"""

import hashlib
import re
import shutil
import stat
import zipfile
from pathlib import Path

import numpy as np

from vadd.data.image_folder import SUFFIXES
from vadd.errors import UserError
from vadd.words import size_in_memory

LARGEST_FILE = 200 * 2**20
LARGEST_ARRAY = 50_000_000
"""Values."""
MOST_IMAGES = 20_000
LARGEST_UNPACKED = 10**9
MOST_PIXELS = 2**24
CHUNK = 2**20


def accept(upload: Path, place: Path) -> Path:
    """The data in ``upload`` as something that ``vadd train --data`` reads, below ``place``; refused in one line."""
    suffix = upload.suffix.lower()
    if suffix not in READERS:
        raise UserError(f"{_shown(upload)} is none of {', '.join(READERS)}")
    size = upload.stat().st_size
    if not 0 < size <= LARGEST_FILE:
        raise UserError(f"{_shown(upload)} has {size:,} bytes; from 1 to {size_in_memory(LARGEST_FILE)} are taken")
    with upload.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()[:8]
    stem = re.sub(r"[^A-Za-z0-9]+", "-", upload.stem).strip("-")[:32] or "data"
    place.mkdir(parents=True, exist_ok=True)
    return READERS[suffix](upload, place / f"{stem}-{digest}")


def _shown(upload: Path) -> str:
    return repr(upload.name if len(upload.name) <= 60 else f"{upload.name[:57]}...")


def _array(upload: Path, target: Path) -> Path:
    try:
        # Mapped, so that a header that promises much allocates nothing.
        found = np.load(upload, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError, TypeError, SyntaxError, MemoryError):
        raise UserError(f"{_shown(upload)} is not an .npy file of numbers") from None
    return _kept(found, upload, target)


def _table(upload: Path, target: Path) -> Path:
    """Integers are an array; anything else is text, in a column ``text``."""
    try:
        found = np.loadtxt(upload, delimiter=",", dtype=np.int64, ndmin=2, encoding="utf-8")
    except (ValueError, OverflowError):
        return _text(upload, target)
    return _kept(found, upload, target)


def _kept(found: np.ndarray, upload: Path, target: Path) -> Path:
    if not isinstance(found, np.ndarray) or found.dtype.kind not in "iu":
        raise UserError(f"{_shown(upload)} holds no integers")
    if found.ndim < 2 or not found.size:
        raise UserError(f"{_shown(upload)} has the shape {found.shape}; examples come first, then their values")
    if found.size > LARGEST_ARRAY:
        raise UserError(f"{_shown(upload)} holds {found.size:,} values; at most {LARGEST_ARRAY:,} are taken")
    file = target.with_name(f"{target.name}.npy")
    np.save(file, np.ascontiguousarray(found))
    return file


def _text(upload: Path, target: Path) -> Path:
    with upload.open(encoding="utf-8", errors="strict") as file:
        try:
            while part := file.read(CHUNK):
                if "\0" in part:
                    raise UserError(f"{_shown(upload)} is not text")
        except UnicodeDecodeError:
            raise UserError(f"{_shown(upload)} is not text in UTF-8") from None
    kept = target.with_name(f"{target.name}{upload.suffix.lower()}")
    shutil.copyfile(upload, kept)
    return kept


def _images(upload: Path, target: Path) -> Path:
    try:
        with zipfile.ZipFile(upload) as archive:
            entries = [entry for entry in archive.infolist() if _is_image(entry, upload)]
            if not 2 <= len(entries) <= MOST_IMAGES:
                raise UserError(
                    f"{_shown(upload)} holds {len(entries)} images; from 2 to {MOST_IMAGES:,} are taken"
                    f" ({', '.join(sorted(SUFFIXES))})"
                )
            if sum(entry.file_size for entry in entries) > LARGEST_UNPACKED:
                raise UserError(f"{_shown(upload)} unpacks to more than {size_in_memory(LARGEST_UNPACKED)}")
            _unpack(archive, entries, upload, target)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError, ValueError) as error:
        shutil.rmtree(target, ignore_errors=True)
        if isinstance(error, UserError):
            raise
        raise UserError(f"{_shown(upload)} is not a zip file that can be read") from None
    return target


def _is_image(entry: zipfile.ZipInfo, upload: Path) -> bool:
    """By its name; one that points elsewhere spoils the whole archive."""
    name = entry.filename.replace("\\", "/")
    if name.startswith("/") or ".." in name.split("/") or re.match(r"^[A-Za-z]:", name):
        raise UserError(f"{_shown(upload)} holds a file that points out of its folder; nothing of it is taken")
    if stat.S_ISLNK(entry.external_attr >> 16):
        raise UserError(f"{_shown(upload)} holds a link; nothing of it is taken")
    hidden = any(part.startswith((".", "__MACOSX")) for part in name.split("/"))
    return not entry.is_dir() and not hidden and Path(name).suffix.lower() in SUFFIXES


def _unpack(archive: zipfile.ZipFile, entries: list[zipfile.ZipInfo], upload: Path, target: Path) -> None:
    from PIL import Image

    target.mkdir(parents=True, exist_ok=True)
    left = LARGEST_UNPACKED
    for number, entry in enumerate(entries):
        file = target / f"{number:06d}{Path(entry.filename).suffix.lower()}"
        with archive.open(entry) as packed, file.open("wb") as unpacked:
            # What an archive says of its sizes is not believed.
            while part := packed.read(CHUNK):
                left -= len(part)
                if left < 0:
                    raise UserError(f"{_shown(upload)} unpacks to more than {size_in_memory(LARGEST_UNPACKED)}")
                unpacked.write(part)
        try:
            with Image.open(file) as image:
                pixels = image.width * image.height
        except Exception:
            raise UserError(f"an image in {_shown(upload)} cannot be read (number {number + 1})") from None
        if pixels > MOST_PIXELS:
            raise UserError(f"an image in {_shown(upload)} has {pixels:,} pixels; at most {MOST_PIXELS:,} are taken")


READERS = {".npy": _array, ".csv": _table, ".txt": _text, ".zip": _images}
