"""Files that are whole or not there at all, and their checksums."""

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from vadd.errors import UserError

PARTIAL = ".partial"


def check_replaceable(target: Path) -> None:
    """Where a device, a pipe or a socket stands nothing is written: replacing would destroy it."""
    if target.exists() and not target.is_file() and not target.is_dir():
        raise UserError(f"{target} is a device, a pipe or a socket; name a file to write")


@contextmanager
def whole_path(target: Path) -> Iterator[Path]:
    """A path beside ``target``, of the same suffix; what is written there, file or folder, takes the name ``target``
    once all went well, and vanishes if anything did not.
    """
    check_replaceable(target)
    # Beside the target, because renaming is atomic only within a file system; with a random name, because several
    # processes may write the same target.
    part = target.with_name(f".{target.stem}.{secrets.token_hex(4)}{PARTIAL}{target.suffix}")
    _parts.add(part)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        yield part
        part.replace(target)
    finally:
        remove(part)
        _parts.discard(part)


_parts: set[Path] = set()


def remove_parts() -> None:
    """What :func:`whole_path` has not finished, where the process ends without another word."""
    for part in _parts.copy():
        remove(part)


@contextmanager
def writing(target: Path) -> Iterator[None]:
    """What the disk refuses in here is a :class:`~vadd.errors.UserError` that names the file."""
    try:
        yield
    except OSError as error:
        raise UserError(f"cannot write {target}: {error.strerror or error}") from None


@contextmanager
def reading(source: Path, what: str = "") -> Iterator[None]:
    """The same of what is read; ``what`` is said before its name."""
    try:
        yield
    except OSError as error:
        raise UserError(f"cannot read {what}{source}: {error.strerror or error}") from None


@contextmanager
def whole_file(target: Path) -> Iterator[BinaryIO]:
    """The same as an open file; what the disk refuses is a :class:`~vadd.errors.UserError` that names it."""
    with writing(target), whole_path(target) as part, part.open("xb") as file:
        yield file
        file.flush()


def write_whole(target: Path, content: str | bytes) -> None:
    """Replace a file, so that a crash leaves the old one or the new one."""
    with whole_path(target) as part:
        part.write_bytes(content if isinstance(content, bytes) else content.encode())
        # Before it is renamed: else a power cut could leave an empty file under the right name.
        flush_to_disk(part)


def write_json(target: Path, content: object) -> None:
    """Of several processes the main one writes."""
    # As vadd.parallel.is_main, which imports torch.
    if os.environ.get("RANK", "0") == "0":
        write_whole(target, json.dumps(content, indent=2) + "\n")


def remove(path: Path) -> None:
    """A file or a whole folder, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink(missing_ok=True)


HUB_PATIENCE = 3.0
"""Seconds that the Hugging Face Hub has to answer. Its client tries again for half a minute."""


def from_hub(repository: str, file: str) -> Path:
    """A file of the Hub, or what its client has kept of it. Errors are those of the client: it has many kinds."""
    from huggingface_hub import hf_hub_download  # heavy

    if hub_answers():
        return Path(hf_hub_download(repository, file))
    try:
        return Path(hf_hub_download(repository, file, local_files_only=True))
    except Exception:
        raise OSError("it does not answer") from None


def hub_answers() -> bool:
    from huggingface_hub import constants, get_session

    try:
        get_session().head(constants.ENDPOINT, timeout=HUB_PATIENCE)
    except Exception:  # of whatever library the client uses
        return False
    return not constants.HF_HUB_OFFLINE


def visible_files(folder: Path, suffixes: Collection[str]) -> list[Path]:
    """The files of these suffixes in ``folder`` and below, sorted; hidden ones are left out."""
    return sorted(
        file
        for file in folder.rglob("*")
        if file.suffix.lower() in suffixes
        and not any(part.startswith(".") for part in file.relative_to(folder).parts)
        and file.is_file()
    )


def checksum(file: Path) -> str:
    """The sha256 of its content."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def flush_to_disk(path: Path) -> None:
    """Wait until the content of a file, or the entries of a folder, would survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
