"""Where x0 comes from: data sets of small integers, each with its settings."""

from typing import Annotated

from pydantic import Field

from vadd.data.array import ArrayData, GivenData, check_dataset, examples_from, save_dataset
from vadd.data.cifar10 import Cifar10Data
from vadd.data.dataset import DataSettings, DiscreteDataset
from vadd.data.image_folder import FolderData
from vadd.data.mnist import DigitsData, MnistData
from vadd.data.synthetic import CopiesData, ToyData, copies_distribution, toy_distribution, toy_sample
from vadd.data.table import TableData
from vadd.data.text import TextData

ImageData = DigitsData | MnistData | Cifar10Data | FolderData
Data = Annotated[
    ToyData | CopiesData | ArrayData | GivenData | ImageData | TextData | TableData, Field(discriminator="kind")
]
"""All data sets that a recipe can name; ``kind`` is the name."""
