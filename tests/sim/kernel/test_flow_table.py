"""Tables that grow keep what they hold; new rows have defaults."""

import math

import numpy as np

from paceline.sim.kernel.flow_table import FEWEST_ROWS, FlowTable, grown, grown_paths


def test_a_grown_column_keeps_its_values_and_its_type() -> None:
    found = grown(np.array([True, False]), 4, True)
    assert found.tolist() == [True, False, True, True]
    assert found.dtype == np.bool_


def test_grown_paths_keep_their_links_in_wider_rows() -> None:
    found = grown_paths(np.array([[1, 9], [2, 3]]), 3, 4, 9)
    assert found.tolist() == [[1, 9, 9, 9], [2, 3, 9, 9], [9, 9, 9, 9]]


def test_every_column_of_a_table_grows() -> None:
    """A column that `grow` forgot would be too short for the next flow."""
    table = FlowTable(beyond=7)
    columns = {name: value for name, value in vars(table).items() if isinstance(value, np.ndarray)}
    for column in columns.values():
        column[0] = True
    table.grow(2 * FEWEST_ROWS, 4)
    for name in columns:
        column = getattr(table, name)
        assert len(column) == 2 * FEWEST_ROWS, name
        assert np.all(column[0][:2] == 1) if name == "path" else column[0] == 1, name
    assert (table.ceiling[-1], table.job[-1], table.live[-1]) == (math.inf, -1, False)
    assert table.path[-1].tolist() == [7, 7, 7, 7]
