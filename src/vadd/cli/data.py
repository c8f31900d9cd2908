"""``vadd data``."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

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
    if name == "inspect":
        _inspect(options.file, options.schema)
    elif options.file is not None or options.schema is not None:
        raise UserError("a file and --schema are for: vadd data inspect FILE")
    elif name is not None and name not in KNOWN:
        raise UserError(f"there is no data set {name!r}; known are {', '.join(KNOWN)}")
    elif directory is not None and name not in DOWNLOADS:
        raise UserError(f"--dir says where to put a download: {', '.join(DOWNLOADS)}")
    elif name is None:
        print_columns([[known, about, _state(known)] for known, (about, _) in KNOWN.items()])
    elif isinstance(how := KNOWN[name][1], Download):
        with progress_bar() as progress:
            place = how.fetch(directory, progress=progress)
        out_console.out(f"{name}: in {place}")
    else:
        out_console.out(f"{name}: {how}; nothing to fetch")


def _inspect(file: Path | None, schema: Path | None) -> None:
    if file is None:
        raise UserError("which table? vadd data inspect people.csv")
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


BUILT_IN, HUB = "built in", "fetched from the hub when used, or data.path=FILE"
STATSMODELS = "use with: vadd train table data.name=NAME; needs pip install 'vadd[tables]'"
KNOWN: dict[str, tuple[str, str | Download]] = {
    "checkerboard": ("two coordinates, half of the cells of a board", BUILT_IN),
    "swissroll": ("two coordinates, a spiral", BUILT_IN),
    "circles": ("two coordinates, two rings", BUILT_IN),
    "copies": ("noisy copies of one hidden symbol", BUILT_IN),
    "digits": ("1,797 handwritten digits, 8 x 8, from scikit-learn", BUILT_IN),
    "mnist": ("70,000 handwritten digits, binarized, 32 x 32", Download(fetch_mnist, list(MD5)[-1])),
    "cifar10": ("60,000 colour images of ten classes, 32 x 32", Download(fetch_cifar10, TEST_BATCH, "170 MB")),
    "pydocs": ("text: the documentation that every Python carries", BUILT_IN),
    "text8": ("text: 100 MB of Wikipedia in 27 characters", Download(fetch_text8, "text8", "31 MB")),
    "lm1b": ("text: 30 million sentences of news", HUB),
    "openwebtext": ("text: 8 million web pages", HUB),
    "fair": ("a table: 6,366 answers to a survey, 9 columns, from statsmodels", STATSMODELS),
    "randhie": ("a table: 20,190 insured people, 10 columns, from statsmodels", STATSMODELS),
    "inception": ("the network behind the FID of colour images", Download(_fetch_inception, "inception.pt", "87 MB")),
    "images": ("your own folder of images", "use with: vadd train --data DIR"),
    "text": ("your own text", "use with: vadd train --data FILE.txt (.jsonl, .csv, or a folder of .txt)"),
    "table": ("your own table", "use with: vadd train --data FILE.csv (.tsv, .parquet)"),
    "array": ("your own integers, an .npy file", "use with: vadd train --data FILE.npy"),
}
"""What each is, and how it is had."""
DOWNLOADS = [name for name, (_, how) in KNOWN.items() if isinstance(how, Download)]


def _state(name: str) -> str:
    _, how = KNOWN[name]
    if isinstance(how, str):
        return how
    place, size = data_directory(name), f" ({how.size})" if how.size else ""
    return f"present in {place}" if any(place.rglob(how.last)) else f"fetch with: vadd data {name}{size}"
