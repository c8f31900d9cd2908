"""``vadd data``."""

from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import NamedTuple

import yaml

from vadd.cli.console import out_console, print_columns
from vadd.cli.syntax import Data
from vadd.data.cifar10 import TEST_BATCH, fetch_cifar10
from vadd.data.download import data_directory
from vadd.data.mnist import MD5, fetch_mnist
from vadd.data.text.named_corpora import fetch_text8
from vadd.errors import UserError
from vadd.evaluation.frechet import fetch_inception
from vadd.files import write_whole
from vadd.kinds.table.codec import TableCodec
from vadd.kinds.table.reading import read_table
from vadd.kinds.table.schema import identifiers, infer, inspect, to_yaml, usual_bins, with_skipped
from vadd.progress import Progress, progress_bar


def data(options: Data) -> None:
    name, directory = options.name, options.directory
    if directory is not None and name not in DOWNLOADS:
        raise UserError(f"--dir says where to put a download: {', '.join(DOWNLOADS)}")
    if name == "inspect":
        _inspect(options.file, options.schema)
    elif options.file is not None or options.schema is not None:
        raise UserError("a file and --schema are for: vadd data inspect FILE")
    elif name is not None and name not in KNOWN:
        raise UserError(f"there is no data set {name!r}; known are {', '.join(KNOWN)}")
    elif name is None:
        print_columns([[known, about, *(how or [_state(known)])] for known, (about, *how) in KNOWN.items()])
    elif name in DOWNLOADS:
        with progress_bar() as progress:
            place = DOWNLOADS[name].fetch(directory, progress=progress)
        out_console.out(f"{name}: in {place}")
    else:
        out_console.out(f"{name}: {KNOWN[name][1]}; nothing to fetch")


def _inspect(file: Path | None, schema: Path | None) -> None:
    if file is None:
        raise UserError("no table is named; type: vadd data inspect FILE.csv")
    with progress_bar() as progress:
        progress(f"reading {file.name}")
        table = read_table(file)
        inferred = infer(table, bins=usual_bins(table.rows), draw="tails")
        inferred = with_skipped(inferred, identifiers(table, inferred), table.source)
        reports = inspect(table, inferred)
        learnt = {each.name: each.spec for each in reports if each.problem is None}
        dependents = (
            TableCodec.fit(table, learnt, range(table.rows), dependent=True).dependents
            if any(spec.kind != "skip" for spec in learnt.values())
            else ()
        )
    out_console.out(f"{file}: {table.rows:,} rows")
    head = ["column", "kind", "values", "missing", "most frequent"]
    print_columns([head, *(report.cells for report in reports)], right=(2, 3))
    for each in dependents:
        out_console.out(each.line)
    if schema is not None:
        write_whole(schema, to_yaml(inferred))
        out_console.out(f"to edit: {schema}; then: vadd train --data {file} data.schema_path={schema}")


def _fetch_inception(directory: Path | None, *, progress: Progress) -> Path:
    if directory is not None:
        raise UserError("inception goes to $VADD_DATA/inception, where FID looks for it; leave out --dir")
    progress("fetching the Inception network (87 MB)")
    return fetch_inception()


class Download(NamedTuple):
    fetch: Callable[..., Path]
    last: str
    """The file that exists once all do."""
    size: str = ""


DOWNLOADS = {
    "mnist": Download(fetch_mnist, list(MD5)[-1]),
    "cifar10": Download(fetch_cifar10, TEST_BATCH, "170 MB"),
    "text8": Download(fetch_text8, "text8", "31 MB"),
    "inception": Download(_fetch_inception, "inception.pt", "87 MB"),
}
KNOWN: dict[str, list[str]] = yaml.safe_load(resources.files("vadd").joinpath("cli", "data.yaml").read_text("utf-8"))


def _state(name: str) -> str:
    place, download = data_directory(name), DOWNLOADS[name]
    size = f" ({download.size})" if download.size else ""
    return f"present in {place}" if any(place.rglob(download.last)) else f"fetch with: vadd data {name}{size}"
