"""Every option of Java Paimon and pypaimon is known to interbed: the test fails when an upgraded peer has a new one.

`JAVA_OPTIONS` lists the classes with options of tables. Those of Flink's and Spark's connectors are not in the jar of
the peer, and are listed by test_known_options.py in tests/storage.
"""

import re

from interbed.storage.meta.options.known.check import KNOWN, check_supported, known_option
from tests.support.peers.java import JavaPaimon
from tests.support.peers.pypaimon import PyPaimon

JAVA_OPTIONS = (
    "org.apache.paimon.CoreOptions",
    "org.apache.paimon.format.OrcOptions",
    "org.apache.paimon.globalindex.btree.BTreeIndexOptions",
    "org.apache.paimon.iceberg.IcebergOptions",
)
ANY = re.compile(r"<[^>]+>|#")


def test_each_option_of_java_paimon_is_known(java_paimon: JavaPaimon) -> None:
    options = java_paimon.option_keys(*JAVA_OPTIONS)
    assert len(options) > 300
    keys = {k for key, _, older in options for k in (key, *older)} - {"file.compression"}
    assert sorted(key for key in keys if known_option(ANY.sub("x", key)) is None) == []


def test_each_option_of_pypaimon_is_known(pypaimon: PyPaimon) -> None:
    options = pypaimon.option_keys()
    assert len(options) > 100
    assert sorted(key for key, _ in options if known_option(key) is None) == []


def test_the_default_of_a_refused_option_is_accepted(java_paimon: JavaPaimon, pypaimon: PyPaimon) -> None:
    defaults = [(key, default) for key, default, _ in java_paimon.option_keys(*JAVA_OPTIONS)]
    for key, default in (*defaults, *pypaimon.option_keys()):
        if default is not None:
            check_supported({key: default})


def test_the_peers_have_most_of_the_keys(java_paimon: JavaPaimon, pypaimon: PyPaimon) -> None:
    """A key that no peer has is an error in the table of known options, unless an engine's connector has it."""
    theirs = {key for key, _, older in java_paimon.option_keys(*JAVA_OPTIONS) for key in (key, *older)}
    theirs |= {key for key, _ in pypaimon.option_keys()}
    assert len([option for option in KNOWN if option.key in theirs]) > 300
