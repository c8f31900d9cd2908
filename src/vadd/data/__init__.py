"""Where x0 comes from: data sets of small integers."""

from vadd.data.array import load_array, read_array
from vadd.data.dataset import DiscreteDataset
from vadd.data.toy import load_toy, toy_distribution, toy_sample

__all__ = ["DiscreteDataset", "load_array", "load_toy", "read_array", "toy_distribution", "toy_sample"]
