"""Files from the network, checked, whole or not there at all, and where they are kept."""

import hashlib
import os
import urllib.request
from collections.abc import Callable, Sequence
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlsplit

from vadd.errors import UserError
from vadd.files import reading, whole_path, writing
from vadd.progress import Progress, silent

CHUNK = 1 << 18
TIMEOUT = 30.0


def data_directory(name: str) -> Path:
    """``$VADD_DATA/name``, else ``vadd/name`` in the user's cache (``$XDG_CACHE_HOME`` or ``~/.cache``)."""
    if chosen := os.environ.get("VADD_DATA"):
        return Path(chosen).expanduser() / name
    cache = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not cache.is_absolute():  # unset or empty; the standard says to ignore relative ones as well
        cache = Path.home() / ".cache"
    return cache / "vadd" / name


def download(
    urls: Sequence[str], target: Path, *, md5: str | None = None, progress: Progress = silent, timeout: float = TIMEOUT
) -> Path:
    """``target``, downloaded from the first of ``urls`` that delivers a file with the right checksum.

    An existing file stays as it is; one with another checksum is refused rather than replaced.
    """
    if target.exists():
        with reading(target):
            actual = md5_of(target)
        if md5 not in (None, actual):
            raise UserError(f"{target} is not the official file (md5 {actual}, not {md5}); move it away and try again")
        return target
    with writing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
    reasons = []
    for url in urls:
        try:
            with whole_path(target) as part:
                _download(url, part, target.name, progress, timeout)
                if md5 not in (None, actual := md5_of(part)):
                    raise OSError(f"sent a file with md5 {actual}, not {md5}")
        except (OSError, HTTPException) as error:
            if isinstance(error, HTTPError):
                error.close()
            cause = error if isinstance(error, HTTPError) else getattr(error, "reason", error)
            reason = getattr(cause, "strerror", None) or str(cause) or type(cause).__name__
            reasons.append(f"{urlsplit(url).netloc}: {' '.join(reason.split())}")
        else:
            return target
    otherwise = f"check the network, or put the file into {target.parent} yourself"
    raise UserError(f"could not fetch {target.name} ({'; '.join(reasons)}); {otherwise}")


def md5_of(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def _download(url: str, part: Path, name: str, progress: Progress, timeout: float) -> None:
    request = urllib.request.Request(url, headers={"User-Agent": "vadd"})
    with urllib.request.urlopen(request, timeout=timeout) as response, part.open("wb") as file:
        total: int | None = response.length
        done = 0
        progress(name, done, total)
        while chunk := response.read(CHUNK):
            done += file.write(chunk)
            progress(name, done, total)
    if total not in (None, done):
        raise OSError(f"the connection ended after {done} of {total} bytes")


Unpack = Callable[[Path], None] | None


def fetch(target: Path, mirrors: Sequence[str], md5: str | None, progress: Progress, unpack: Unpack = None) -> None:
    """A published file by its name on each of the ``mirrors``; unpacked, it goes unless it was there before."""
    was_there = target.exists()
    download([mirror + target.name for mirror in mirrors], target, md5=md5, progress=progress)
    if unpack is not None:
        try:
            unpack(target)
        finally:
            if not was_there:
                target.unlink()


def not_there(title: str, place: Path, missing: str, directory: str | None) -> UserError:
    """Of a data set that ``vadd data`` fetches, into the ``directory`` that the settings name."""
    command = f"vadd data {title.lower().replace('-', '')}" + (f" --dir {directory}" if directory else "")
    return UserError(f"{title} is not in {place}: {missing} is missing; fetch it with: {command}")
