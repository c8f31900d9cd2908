"""Section ``data``: which data set, and how it is read."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PositiveInt, model_validator

from vadd.settings import CountingSection, Fraction

LABELS = "whether the model is given the class of each example, to draw from a class: `vadd sample --label`"


def _spelled(name: Any) -> Any:
    """A column that is called 2024, or that has a number for want of a name."""
    return str(name) if isinstance(name, int) and not isinstance(name, bool) else name


ColumnName = Annotated[str, BeforeValidator(_spelled)]


class ToyData(CountingSection):
    """One of the two-dimensional distributions of the paper."""

    kind: Literal["toy"] = "toy"
    name: Literal["checkerboard", "swissroll", "circles"] = "checkerboard"
    vocab_size: int = Field(100, ge=2)
    train_size: PositiveInt = 100_000
    test_size: PositiveInt = 10_000


class CopiesData(CountingSection):
    """Noisy copies of one hidden symbol; the entropy is known exactly."""

    kind: Literal["copies"] = "copies"
    positions: int = Field(6, ge=1, le=8)
    vocab_size: int = Field(4, ge=2, le=8)
    noise: Fraction = 0.1
    train_size: PositiveInt = 100_000
    test_size: PositiveInt = 10_000


class ArrayData(CountingSection):
    """Any integer array in an .npy file, examples along the first axis."""

    kind: Literal["array"] = "array"
    path: str
    labels: bool = Field(False, description=LABELS)
    labels_path: str | None = Field(
        None,
        description="an .npy file with a label for each example, integers or text; by default labels.npy beside it",
    )
    vocab_size: int | None = Field(None, ge=2, description="V; by default one more than the largest value in the file")
    test_fraction: float = Field(0.1, gt=0, lt=1)


class GivenData(CountingSection):
    """A data set that was made in Python; its run keeps it in this folder."""

    kind: Literal["given"] = "given"
    path: str


class DigitsData(CountingSection):
    """scikit-learn's handwritten digits, 8 x 8, part of that package."""

    kind: Literal["digits"] = "digits"
    labels: bool = Field(False, description=LABELS)
    levels: int = Field(2, ge=2, le=17)


class MnistData(CountingSection):
    """MNIST binarised at one half and padded to 32 x 32."""

    kind: Literal["mnist"] = "mnist"
    labels: bool = Field(False, description=LABELS)
    directory: str | None = Field(
        None, description="where the four idx files lie; by default where `vadd data mnist` puts them"
    )


class Cifar10Data(CountingSection):
    kind: Literal["cifar10"] = "cifar10"
    labels: bool = Field(False, description=LABELS)
    directory: str | None = Field(
        None, description="where the binary batches lie; by default where `vadd data cifar10` puts them"
    )
    levels: int = Field(256, ge=2, le=256, description="values per channel")


class FolderData(CountingSection):
    """A folder of images, cropped to squares and resized."""

    kind: Literal["folder"] = "folder"
    path: str
    labels: bool = Field(False, description=f"{LABELS}; the folders in it are the classes")
    size: int = Field(32, ge=1, le=1024)
    channels: Literal[1, 3] = 3
    levels: int = Field(256, ge=2, le=256, description="values per channel")
    test_fraction: float = Field(0.1, gt=0, lt=1)


class TextData(CountingSection):
    """Text in sequences of ``length`` tokens."""

    kind: Literal["text"] = "text"
    corpus: Literal[
        "files", "pydocs", "text8", "lm1b", "openwebtext", "lambada", "wikitext", "ag_news", "pubmed", "arxiv"
    ] = Field("files", description="files: your own text; pydocs: the documentation that every Python carries")
    path: str | None = Field(
        None,
        description="a text file, .jsonl, .csv, or a folder of .txt; for a named corpus a local copy of it, else it is "
        "fetched",
    )
    documents: Literal["file", "line", "paragraph"] | None = Field(
        None,
        description="what a document is in plain text; by default a file, in local copies of named corpora a line. A "
        "single file as one document is split by position",
    )
    field: ColumnName | None = Field(
        None, description="the key in .jsonl or column in .csv that holds the text; by default 'text'"
    )
    labels: bool = Field(False, description=f"{LABELS}; one for each document, with wrap: padded")
    label_field: ColumnName = Field("label", description="the key in .jsonl or column in .csv that holds the label")
    tokenizer: Literal["characters", "bytes", "bpe", "gpt2", "bert", "file"] = Field(
        "characters", description="characters and bpe are learnt from the text; file: any tokenizer.json"
    )
    tokenizer_path: str | None = Field(
        None, description="where the files of gpt2, bert or file lie; by default gpt2 and bert come from the hub"
    )
    vocabulary: PositiveInt = Field(4096, description="entries of the bpe")
    length: PositiveInt = 128
    wrap: Literal["packed", "wrapped", "padded"] = Field(
        "packed",
        description="packed: documents in a row, EOS after each; wrapped: the same, each sequence between BOS and EOS; "
        "padded: one document a sequence, filled up with pads, which are masked and seen but not scored",
    )
    test_fraction: float = Field(
        0.1, gt=0, lt=1, description="of the documents; the published corpora have splits of their own"
    )

    @model_validator(mode="after")
    def _one_label_a_sequence(self) -> "TextData":
        if self.labels and self.wrap != "padded":
            raise ValueError("labels go with data.wrap=padded: one document a sequence, and so one label")
        return self


class TableData(CountingSection):
    """Rows of a table: categories, numbers, dates, with cells missing."""

    kind: Literal["table"] = "table"
    path: str | None = Field(None, description="a .csv, .tsv or .parquet file")
    name: Literal["fair", "randhie"] | None = Field(
        None, description="instead of a path: a table that ships with statsmodels"
    )
    schema_path: str | None = Field(
        None, description="what the columns are, as `vadd data inspect FILE --schema` writes it; else it is inferred"
    )
    skip: tuple[ColumnName, ...] = Field((), description="columns to leave out")
    labels: bool = Field(False, description="never: a label of a table is one of its columns")
    missing: Literal["value", "unknown"] = Field(
        "value",
        description="missing cells without a schema: a value of their own, drawn like others, or unknown: never scored",
    )
    test_fraction: float = Field(0.1, gt=0, lt=1)

    @model_validator(mode="after")
    def _label_is_a_column(self) -> "TableData":
        if self.labels:
            raise ValueError(
                "a label of a table is one of its columns: leave data.labels out, and draw rows that have it with "
                "`vadd sample RUN --where COLUMN=VALUE`"
            )
        return self


Data = Annotated[
    ToyData
    | CopiesData
    | ArrayData
    | GivenData
    | DigitsData
    | MnistData
    | Cifar10Data
    | FolderData
    | TextData
    | TableData,
    Field(discriminator="kind"),
]
