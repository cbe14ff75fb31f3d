"""Readers beside the Spark session: Java Paimon and pypaimon."""

import pytest

from tests.interop.conftest import java_paimon, pypaimon
from tests.spark_ext.conftest import SparkLake
from tests.spark_ext.interop.all_readers import AllReaders
from tests.support.peers.java import JavaPaimon
from tests.support.peers.pypaimon import PyPaimon

__all__ = ["java_paimon", "pypaimon", "readers"]


@pytest.fixture
def readers(lake: SparkLake, java_paimon: JavaPaimon, pypaimon: PyPaimon) -> AllReaders:
    """A lake with the empty database `db`, and its other readers."""
    return AllReaders(lake, java_paimon, pypaimon)
