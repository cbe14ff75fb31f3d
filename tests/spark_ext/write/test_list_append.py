"""The checker of list-append histories finds the anomalies that it is designed for."""

import pytest

from tests.support.list_append import AnomalyError, AppendTransaction, History, serial_order

A = AppendTransaction("a", {1: 1, 2: 1})
B = AppendTransaction("b", {1: 2, 2: 2})


def test_a_serial_history_has_its_order() -> None:
    reads: list[dict[int, list[int]]] = [{1: [], 2: []}, {1: [2], 2: [2]}, {1: [2, 1], 2: [2, 1]}]
    assert serial_order(History([A, B], reads)) == ["b", "a"]


@pytest.mark.parametrize(
    ("history", "anomaly"),
    [
        (History([A, B], [{1: [1], 2: [1]}]), "lost update"),
        (History([A, AppendTransaction("b", {1: 2}, committed=False)], [{1: [1, 2], 2: [1]}]), "dirty read"),
        (History([A, B], [{1: [1, 2], 2: [2, 1]}]), "cycle"),
        (History([A, B], [{1: [2]}, {1: [1, 2], 2: [1, 2]}]), "incompatible order"),
        (History([A, B], [{1: [1], 2: []}, {1: [1, 2], 2: [1, 2]}]), "fractured read"),
        (History([A], [{1: [1, 1], 2: [1]}]), "duplicate"),
    ],
)
def test_an_anomaly_is_named(history: History, anomaly: str) -> None:
    with pytest.raises(AnomalyError, match=anomaly):
        serial_order(history)
