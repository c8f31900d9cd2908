r"""Mask schedules: how fast positions disappear on the way from data (t = 0) to all-masked (t = 1).

A schedule is the survival probability :math:`\alpha(t)`, falling from 1 to 0. Everything else follows from it:

* loss weight :math:`w(t) = -\alpha'(t) / (1 - \alpha(t))`,
* reveal probability :math:`\rho = (\alpha(s) - \alpha(t)) / (1 - \alpha(t))` of a masked position going back from t
  to s < t.

Times are tensors of any shape. Subclasses state the *masked fraction* :math:`1 - \alpha` rather than :math:`\alpha`,
because it is what the weight divides by and it must stay accurate near t = 0.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field
from torch import Tensor

from vadd.settings import checked_fields


class Schedule(ABC):
    """How many positions survive until time t, and what follows from it."""

    @abstractmethod
    def masked_fraction(self, t: Tensor) -> Tensor:
        """1 - alpha(t)."""

    @abstractmethod
    def alpha_prime(self, t: Tensor) -> Tensor:
        """The derivative of alpha, negative on (0, 1)."""

    @abstractmethod
    def time_at(self, masked_fraction: Tensor) -> Tensor:
        """The inverse of ``masked_fraction``."""

    def alpha(self, t: Tensor) -> Tensor:
        return 1 - self.masked_fraction(t)

    def weight(self, t: Tensor) -> Tensor:
        return -self.alpha_prime(t) / self.masked_fraction(t)

    def reveal_probability(self, t: Tensor, s: Tensor) -> Tensor:
        return 1 - self.masked_fraction(s) / self.masked_fraction(t)


@checked_fields
@dataclass(frozen=True)
class PolynomialSchedule(Schedule):
    """alpha(t) = 1 - t^power, with weight power / t."""

    power: Annotated[float, Field(gt=0)] = 2.0

    def masked_fraction(self, t: Tensor) -> Tensor:
        return t**self.power

    def alpha_prime(self, t: Tensor) -> Tensor:
        return -self.power * t ** (self.power - 1)

    def time_at(self, masked_fraction: Tensor) -> Tensor:
        return masked_fraction ** (1 / self.power)

    def weight(self, t: Tensor) -> Tensor:
        # In closed form: the quotient of two small powers would lose digits near t = 0.
        return self.power / t


@dataclass(frozen=True)
class LinearSchedule(PolynomialSchedule):
    """alpha(t) = 1 - t, with weight 1 / t: the paper's schedule.

    >>> import torch
    >>> LinearSchedule().alpha(torch.tensor([0.0, 0.25, 1.0]))
    tensor([1.0000, 0.7500, 0.0000])
    >>> LinearSchedule().weight(torch.tensor([0.25, 1.0]))
    tensor([4., 1.])
    """

    power: float = 1.0


@dataclass(frozen=True)
class CosineSchedule(Schedule):
    """alpha(t) = 1 - cos(pi/2 (1 - t)) = 1 - sin(pi/2 t)."""

    def masked_fraction(self, t: Tensor) -> Tensor:
        return (math.pi / 2 * t).sin()

    def alpha_prime(self, t: Tensor) -> Tensor:
        return -math.pi / 2 * (math.pi / 2 * t).cos()

    def time_at(self, masked_fraction: Tensor) -> Tensor:
        return masked_fraction.asin() * (2 / math.pi)
