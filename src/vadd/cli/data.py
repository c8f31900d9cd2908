"""``vadd data``."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from vadd.cli.console import out_console, print_columns, progress_bar
from vadd.cli.syntax import Data
from vadd.data import DiscreteDataset, cifar10
from vadd.data.download import data_directory
from vadd.data.mnist import MnistData, fetch_mnist, missing_mnist
from vadd.data.text.text8 import fetch_text8
from vadd.errors import UserError
from vadd.evaluation.frechet import fetch_inception, inception_file
from vadd.files import write_whole
from vadd.kinds.table.codec import TableCodec
from vadd.kinds.table.reading import read_table
from vadd.kinds.table.schema import infer, inspect, to_yaml
from vadd.progress import Progress

BUILT_IN = "built in"


def data(options: Data) -> None:
    name, directory = options.name, options.directory
    if name == "inspect":
        _inspect(options.file, options.schema)
    elif options.file is not None or options.schema is not None:
        raise UserError("a file and --schema are for: vadd data inspect FILE")
    elif name is None:
        if directory is not None:
            raise UserError("--dir says where to put a data set: name it too, like: vadd data mnist --dir DIR")
        print_columns([[known, about, _state(known)] for known, about in KNOWN.items()])
    elif name not in KNOWN:
        raise UserError(f"there is no data set {name!r}; known are {', '.join(KNOWN)}")
    elif name in DOWNLOADS:
        with progress_bar() as progress:
            content = DOWNLOADS[name].fetch(directory, progress)
        _say(f"{name}: {content}")
    elif directory is not None:
        raise UserError(f"{name} needs no download, so there is nothing to put into {directory}")
    else:
        _say(f"{name}: {_state(name)}; nothing to fetch")


def _inspect(file: Path | None, schema: Path | None) -> None:
    if file is None:
        raise UserError("which table? vadd data inspect people.csv")
    with progress_bar() as progress:
        progress(f"reading {file.name}")
        table = read_table(file)
        inferred = infer(table)
        reports = inspect(table, inferred)
        learnt = {each.name: each.spec for each in reports if each.problem is None}
        dependents = TableCodec.fit(table, learnt, range(table.rows), dependent=True).dependents if learnt else ()
    _say(f"{file}: {table.rows:,} rows")
    head = ["column", "kind", "values", "missing", "most frequent"]
    print_columns([head, *(report.cells for report in reports)], right=frozenset({2, 3}))
    for each in dependents:
        _say(each.line)
    if schema is not None:
        write_whole(schema, to_yaml(inferred))
        _say(f"to edit: {schema}; then: vadd train --data {file} data.schema_path={schema}")


def _say(line: str) -> None:
    out_console.print(line, soft_wrap=True, markup=False)


@dataclass(frozen=True)
class Download:
    present: Callable[[], str | None]
    """Where it is; None where it is not, or not whole."""
    fetch: Callable[[Path | None, Progress], str]
    """Gets it, and says what is where."""
    size: str = ""


def _mnist() -> str | None:
    place = data_directory("mnist")
    return None if missing_mnist(place) else str(place)


def _cifar10() -> str | None:
    train, test = cifar10.count_cifar10()
    whole = (train, test) == (cifar10.BATCH_IMAGES * len(cifar10.TRAIN_BATCHES), cifar10.BATCH_IMAGES)
    part = "" if whole else f", a part of it: {train:,} + {test:,} images"
    return f"{data_directory('cifar10')}{part}" if train and test else None


def _folder_of(file: Path) -> str | None:
    return str(file.parent) if file.is_file() else None


def _images(place: Path, read: Callable[[], DiscreteDataset], progress: Progress) -> str:
    progress("checking")
    images = read()
    return f"{len(images.train):,} + {len(images.test):,} images in {place}"


def _fetch_mnist(directory: Path | None, progress: Progress) -> str:
    place = fetch_mnist(directory, progress=progress)
    return _images(place, MnistData(directory=str(place)).load, progress)


def _fetch_cifar10(directory: Path | None, progress: Progress) -> str:
    place = cifar10.fetch_cifar10(directory, progress=progress)
    return _images(place, cifar10.Cifar10Data(directory=str(place)).load, progress)


def _fetch_text8(directory: Path | None, progress: Progress) -> str:
    file = fetch_text8(directory, progress=progress)
    return f"{file.stat().st_size:,} characters in {file.parent}"


def _fetch_inception(directory: Path | None, progress: Progress) -> str:
    if directory is not None:
        raise UserError("inception goes to $VADD_DATA/inception, where FID looks for it; leave out --dir")
    progress("fetching the Inception network (87 MB)")
    return f"in {fetch_inception()}"


DOWNLOADS = {
    "mnist": Download(_mnist, _fetch_mnist),
    "cifar10": Download(_cifar10, _fetch_cifar10, " (170 MB)"),
    "text8": Download(lambda: _folder_of(data_directory("text8") / "text8"), _fetch_text8, " (31 MB)"),
    "inception": Download(lambda: _folder_of(inception_file()), _fetch_inception, " (87 MB)"),
}
USE = {
    "images": "use with: vadd train --data DIR",
    "text": "use with: vadd train --data FILE.txt (.jsonl, .csv, or a folder of .txt)",
    "table": "use with: vadd train --data FILE.csv (.tsv, .parquet)",
    "array": "use with: vadd train --data FILE.npy",
}


def _state(name: str) -> str:
    if name in DOWNLOADS:
        place = DOWNLOADS[name].present()
        return f"fetch with: vadd data {name}{DOWNLOADS[name].size}" if place is None else f"present in {place}"
    if name in ("lm1b", "openwebtext"):
        needed = "" if find_spec("datasets") else "; needs pip install 'vadd[text]'"
        return f"fetched from the hub when used, or data.path=FILE{needed}"
    if name in ("fair", "randhie"):
        needed = BUILT_IN if find_spec("statsmodels") else "needs pip install 'vadd[tables]'"
        return f"{needed}; use with: vadd train table data.name=NAME"
    return USE.get(name, BUILT_IN)


KNOWN = {
    "checkerboard": "two coordinates, half of the cells of a board",
    "swissroll": "two coordinates, a spiral",
    "circles": "two coordinates, two rings",
    "copies": "noisy copies of one hidden symbol",
    "digits": "1,797 handwritten digits, 8 x 8, from scikit-learn",
    "mnist": "70,000 handwritten digits, binarized, 32 x 32",
    "cifar10": "60,000 colour images of ten classes, 32 x 32",
    "pydocs": "text: the documentation that every Python carries",
    "text8": "text: 100 MB of Wikipedia in 27 characters",
    "lm1b": "text: 30 million sentences of news",
    "openwebtext": "text: 8 million web pages",
    "fair": "a table: 6,366 answers to a survey, 9 columns, from statsmodels",
    "randhie": "a table: 20,190 insured people, 10 columns, from statsmodels",
    "inception": "the network behind the FID of colour images",
    "images": "your own folder of images",
    "text": "your own text",
    "table": "your own table",
    "array": "your own integers, an .npy file",
}
