"""Columns of a table with one row per flow. A table grows; what a column holds stays, and new rows have a default."""

from typing import TypeVar

import numpy as np
import numpy.typing as npt

from paceline.flowcore.allocation.borrowing import Ints

T = TypeVar("T", bound=np.generic)
Bools = npt.NDArray[np.bool_]


def grown(column: npt.NDArray[T], rows: int, default: float) -> npt.NDArray[T]:
    fresh = np.full(rows, default, column.dtype)
    fresh[: len(column)] = column
    return fresh


def grown_paths(paths: Ints, rows: int, width: int, default: int) -> Ints:
    """Paths are a column of rows: one link number per hop."""
    fresh = np.full((rows, width), default, np.int64)
    fresh[: paths.shape[0], : paths.shape[1]] = paths
    return fresh
