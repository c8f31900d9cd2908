"""Files from the network, checked, whole or not there at all, and where they are kept."""

import hashlib
import http.client
import os
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit

from vadd.errors import UserError
from vadd.files import whole_file
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


class _MirrorFailed(Exception):  # noqa: N818  # the next mirror may do better
    """One mirror did not deliver, with the reason."""


def download(
    urls: Sequence[str], target: Path, *, md5: str | None = None, progress: Progress = silent, timeout: float = TIMEOUT
) -> Path:
    """``target``, downloaded from the first of ``urls`` that delivers a file with the right checksum.

    A file that is there already stays as it is; one with another checksum is refused rather than replaced.
    """
    if target.exists():
        refuse_other_content(target, md5)
        return target
    reasons = []
    for url in urls:
        try:
            with whole_file(target) as file:
                _download(url, file, target.name, md5, progress, timeout)
        except _MirrorFailed as failed:
            reasons.append(f"{urlsplit(url).netloc}: {failed}")
        else:
            return target
    raise UserError(
        f"could not fetch {target.name} ({'; '.join(reasons)}); "
        f"check the network, or put the file into {target.parent} yourself"
    )


def refuse_other_content(file: Path, md5: str | None) -> None:
    """An error unless ``file`` is a file with this checksum."""
    try:
        with file.open("rb") as content:
            actual = hashlib.file_digest(content, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    except OSError as error:
        raise UserError(f"cannot read {file}: {error.strerror}") from None
    if md5 is not None and actual != md5:
        raise UserError(f"{file} is not the official file (md5 {actual}, not {md5}); move it away and try again")


def _download(url: str, file: BinaryIO, name: str, md5: str | None, progress: Progress, timeout: float) -> None:
    digest = hashlib.md5(usedforsecurity=False)
    done = 0
    with _network():
        response = urllib.request.urlopen(urllib.request.Request(url, headers={"User-Agent": "vadd"}), timeout=timeout)
    with response:
        total: int | None = response.length
        progress(name, 0, total)
        while True:
            with _network():
                chunk = response.read(CHUNK)
            if not chunk:
                break
            file.write(chunk)
            digest.update(chunk)
            done += len(chunk)
            progress(name, done, total)
    if total is not None and done != total:
        raise _MirrorFailed(f"the connection ended after {done} of {total} bytes")
    if md5 is not None and digest.hexdigest() != md5:
        raise _MirrorFailed(f"sent a file with md5 {digest.hexdigest()}, not {md5}")


@contextmanager
def _network() -> Iterator[None]:
    """Only what goes wrong in here is the mirror's fault; a full disk is not."""
    try:
        yield
    except urllib.error.HTTPError as error:
        error.close()
        raise _MirrorFailed(f"HTTP {error.code} {error.reason}") from None
    except (OSError, http.client.HTTPException) as error:
        cause = error.reason if isinstance(error, urllib.error.URLError) else error
        reason = cause.strerror if isinstance(cause, OSError) and cause.strerror else str(cause) or type(cause).__name__
        raise _MirrorFailed(" ".join(reason.split())) from None
