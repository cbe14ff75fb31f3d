"""The witnesses of a test: Java Paimon and pypaimon beside the Spark session."""

import pytest

from tests.interop.conftest import java_paimon, pypaimon
from tests.spark_ext.conftest import Lake
from tests.spark_ext.witness.witness import Witness
from tests.support.peers.java import JavaPaimon
from tests.support.peers.pypaimon import PyPaimon

__all__ = ["java_paimon", "pypaimon", "witness"]


@pytest.fixture
def witness(lake: Lake, java_paimon: JavaPaimon, pypaimon: PyPaimon) -> Witness:
    """A lake with the empty database `db`, and those who read along."""
    return Witness(lake, java_paimon, pypaimon)
