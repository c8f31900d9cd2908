"""Where x0 comes from: data sets of small integers."""

from vadd.data.array import examples_from, load_array, read_array, split_array, values_of
from vadd.data.cifar10 import load_cifar10
from vadd.data.copies import copies_distribution, load_copies
from vadd.data.dataset import DiscreteDataset
from vadd.data.digits import load_digits
from vadd.data.given import check_dataset, load_dataset, save_dataset
from vadd.data.image_folder import load_image_folder
from vadd.data.mnist import load_mnist
from vadd.data.table import load_table
from vadd.data.text import load_text
from vadd.data.toy import load_toy, toy_distribution, toy_sample

__all__ = [
    "DiscreteDataset",
    "check_dataset",
    "copies_distribution",
    "examples_from",
    "load_array",
    "load_cifar10",
    "load_copies",
    "load_dataset",
    "load_digits",
    "load_image_folder",
    "load_mnist",
    "load_table",
    "load_text",
    "load_toy",
    "read_array",
    "save_dataset",
    "split_array",
    "toy_distribution",
    "toy_sample",
    "values_of",
]
