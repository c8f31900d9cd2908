"""``vadd data``."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from vadd.cli.console import out_console, progress_bar
from vadd.cli.syntax import Data
from vadd.cli.table_columns import show_reports
from vadd.errors import UserError

BUILT_IN, INSPECT = "built in", "inspect"


@dataclass(frozen=True)
class _Known:
    about: str
    state: Callable[[], str]
    fetch: Callable[[Path | None], str] | None = None
    """Gets it, and says what is where."""


def data(options: Data) -> None:
    name, file, directory, schema = options.name, options.file, options.directory, options.schema
    if name == INSPECT:
        if file is None:
            raise UserError("which table? vadd data inspect people.csv")
        _inspect(file, schema)
        return
    if file is not None or schema is not None:
        raise UserError("a file and --schema go with: vadd data inspect FILE")
    if name is None:
        if directory is not None:
            raise UserError("--dir says where to put a data set: name it too, like: vadd data mnist --dir DIR")
        _list()
        return
    if name not in KNOWN:
        raise UserError(f"there is no data set {name!r}; known are {', '.join(KNOWN)}")
    fetch = KNOWN[name].fetch
    if fetch is None:
        if directory is not None:
            raise UserError(f"{name} needs no download, so there is nothing to put into {directory}")
        _say(f"{name}: {KNOWN[name].state()}; nothing to fetch")
        return
    _say(f"{name}: {fetch(directory)}")


def _list() -> None:
    names = max(map(len, KNOWN))
    abouts = max(len(known.about) for known in KNOWN.values())
    for name, known in KNOWN.items():
        _say(f"{name:{names}}  {known.about:{abouts}}  {known.state()}")


def _inspect(file: Path, schema: Path | None) -> None:
    from vadd.kinds.table.reading import read_table
    from vadd.kinds.table.schema import infer, inspect, to_yaml

    with progress_bar() as progress:
        progress(f"reading {file.name}")
        table = read_table(file)
        inferred = infer(table)
        reports = inspect(table, inferred)
    _say(f"{file}: {table.rows:,} rows")
    show_reports(reports)
    if schema is not None:
        schema.write_text(to_yaml(inferred), encoding="utf-8")
        _say(f"to edit: {schema}; then: vadd train --data {file} data.schema_path={schema}")


def _table_state() -> str:
    from importlib.util import find_spec

    needed = BUILT_IN if find_spec("statsmodels") else "needs pip install 'vadd[tables]'"
    return f"{needed}; use with: vadd train table data.name=NAME"


def _say(line: str) -> None:
    out_console.print(line, soft_wrap=True, markup=False)


def _mnist_state() -> str:
    from vadd.data.download import data_directory
    from vadd.data.mnist import missing_mnist

    place = data_directory("mnist")
    return "fetch with: vadd data mnist" if missing_mnist(place) else f"present in {place}"


def _fetch_mnist(directory: Path | None) -> str:
    from vadd.data.mnist import MnistData, fetch_mnist

    with progress_bar() as report:
        place = fetch_mnist(directory, progress=report)
        report("checking")
        images = MnistData(directory=str(place)).load()
    return f"{len(images.train):,} + {len(images.test):,} images in {place}"


def _cifar10_state() -> str:
    from vadd.data.cifar10 import BATCH_IMAGES, TRAIN_BATCHES, count_cifar10
    from vadd.data.download import data_directory

    train, test = count_cifar10()
    place = data_directory("cifar10")
    if not (train and test):
        return "fetch with: vadd data cifar10 (170 MB)"
    if (train, test) != (BATCH_IMAGES * len(TRAIN_BATCHES), BATCH_IMAGES):
        return f"present in {place}, a part of it: {train:,} + {test:,} images"
    return f"present in {place}"


def _fetch_cifar10(directory: Path | None) -> str:
    from vadd.data.cifar10 import Cifar10Data, fetch_cifar10

    with progress_bar() as report:
        place = fetch_cifar10(directory, progress=report)
        report("checking")
        images = Cifar10Data(directory=str(place)).load()
    return f"{len(images.train):,} + {len(images.test):,} images in {place}"


def _inception_state() -> str:
    from vadd.evaluation.inception import inception_file

    place = inception_file()
    return f"present in {place.parent}" if place.is_file() else "fetch with: vadd data inception (87 MB)"


def _fetch_inception(directory: Path | None) -> str:
    from vadd.evaluation.inception import fetch_inception

    if directory is not None:
        raise UserError("inception goes to $VADD_DATA/inception, where FID looks for it; leave out --dir")
    with progress_bar() as report:
        report("fetching the Inception network (87 MB)")
        return f"in {fetch_inception()}"


def _text8_state() -> str:
    from vadd.data.download import data_directory

    file = data_directory("text8") / "text8"
    return f"present in {file.parent}" if file.is_file() else "fetch with: vadd data text8 (31 MB)"


def _fetch_text8(directory: Path | None) -> str:
    from vadd.data.text.text8 import fetch_text8

    with progress_bar() as report:
        file = fetch_text8(directory, progress=report)
    return f"{file.stat().st_size:,} characters in {file.parent}"


def _from_hub() -> str:
    from importlib.util import find_spec

    needed = "" if find_spec("datasets") else "; needs pip install 'vadd[text]'"
    return f"fetched from the hub when used, or data.path=FILE{needed}"


def _built_in() -> str:
    return BUILT_IN


KNOWN = {
    "checkerboard": _Known("two coordinates, half of the cells of a board", _built_in),
    "swissroll": _Known("two coordinates, a spiral", _built_in),
    "circles": _Known("two coordinates, two rings", _built_in),
    "copies": _Known("noisy copies of one hidden symbol", _built_in),
    "digits": _Known("1,797 handwritten digits, 8 x 8, from scikit-learn", _built_in),
    "mnist": _Known("70,000 handwritten digits, binarized, 32 x 32", _mnist_state, _fetch_mnist),
    "cifar10": _Known("60,000 colour images of ten classes, 32 x 32", _cifar10_state, _fetch_cifar10),
    "pydocs": _Known("text: the documentation that every Python carries", _built_in),
    "text8": _Known("text: 100 MB of Wikipedia in 27 characters", _text8_state, _fetch_text8),
    "lm1b": _Known("text: 30 million sentences of news", _from_hub),
    "openwebtext": _Known("text: 8 million web pages", _from_hub),
    "fair": _Known("a table: 6,366 answers to a survey, 9 columns, from statsmodels", _table_state),
    "randhie": _Known("a table: 20,190 insured people, 10 columns, from statsmodels", _table_state),
    "inception": _Known("the network behind the FID of colour images", _inception_state, _fetch_inception),
    "images": _Known("your own folder of images", lambda: "use with: vadd train --data DIR"),
    "text": _Known("your own text", lambda: "use with: vadd train --data FILE.txt (.jsonl, .csv, or a folder of .txt)"),
    "table": _Known("your own table", lambda: "use with: vadd train --data FILE.csv (.tsv, .parquet)"),
    "array": _Known("your own integers, an .npy file", lambda: "use with: vadd train --data FILE.npy"),
}
