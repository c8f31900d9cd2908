"""Where x0 comes from: data sets of small integers."""

from vadd.data.array import examples_from, load_array, read_array
from vadd.data.copies import copies_distribution, load_copies
from vadd.data.dataset import DiscreteDataset
from vadd.data.toy import load_toy, toy_distribution, toy_sample

__all__ = [
    "DiscreteDataset",
    "copies_distribution",
    "examples_from",
    "load_array",
    "load_copies",
    "load_toy",
    "read_array",
    "toy_distribution",
    "toy_sample",
]
