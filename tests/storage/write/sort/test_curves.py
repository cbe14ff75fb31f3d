"""Curves number the cells of a grid so that cells with close numbers are close to each other."""

from itertools import product

import numpy as np
import pytest

from interbed.storage.write.sort.key import MOST_COLUMNS, bits_of, hilbert, z_order


@pytest.mark.parametrize(("columns", "side"), [(2, 16), (3, 8), (4, 4)])
def test_a_hilbert_curve_steps_from_each_cell_to_a_neighbour(columns: int, side: int) -> None:
    cells = np.array(list(product(range(side), repeat=columns)), np.uint64)
    index = hilbert([np.ascontiguousarray(cells[:, i]) for i in range(columns)])
    walk = cells[np.argsort(index)].astype(np.int64)
    assert len(set(index.tolist())) == side**columns
    assert (np.abs(np.diff(walk, axis=0)).sum(axis=1) == 1).all()


def test_a_z_order_interleaves_the_bits() -> None:
    first, second = np.array([0b101], np.uint64), np.array([0b011], np.uint64)
    assert z_order([first, second]).tolist() == [0b100111]


@pytest.mark.parametrize("columns", [1, 2, 5, 6, 17, MOST_COLUMNS])
def test_the_greatest_cell_is_last_on_a_z_order_of_any_number_of_columns(columns: int) -> None:
    most = (1 << bits_of(columns)) - 1
    index = z_order([np.array([most, 0], np.uint64) for _ in range(columns)])
    assert index.tolist() == [(1 << (bits_of(columns) * columns)) - 1, 0]
