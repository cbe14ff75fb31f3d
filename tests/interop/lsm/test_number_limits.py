"""Sums and products within the limits of their column's type equal those of Java Paimon; beyond them there is an error.

Java Paimon 1.4.2, the peer here, has no usable result there. Integers wrap around, which Paimon 2.0 made an error
(FieldSumAgg and FieldProductAgg, apache/paimon#7906 and #7992). A sum of decimals of up to 18 digits gets more digits
than its type has (DecimalUtils.add). Other decimals become null (Decimal.fromBigDecimal), and the next row starts a new
sum, so that the result depends on the rows that a compaction has merged before.
"""

from pathlib import Path
from typing import Any

import pytest

from interbed.storage.base.errors import InvalidInputError
from tests.support.peers.interbed import interbed_table
from tests.support.peers.java import JavaPaimon

# By type: rows within its limits, and rows beyond them with Java's result.
SUMS: dict[str, tuple[list[list[Any]], list[Any], Any]] = {
    "TINYINT": ([[100, 27], [-100, -28]], [127, 1], -128),
    "SMALLINT": ([[32_766, 1], [-32_767, -1]], [-32_768, -1], 32_767),
    "INT": ([[2**31 - 2, 1], [1 - 2**31, -1]], [2**31 - 1, 1], -(2**31)),
    "BIGINT": ([[2**63 - 2, 1], [1 - 2**63, -1]], [2**63 - 1, 1], -(2**63)),
    "DECIMAL(4, 2)": ([["99.98", "0.01"], ["-99.98", "-0.01"]], ["99.99", "0.01"], "100.00"),
    "DECIMAL(18, 0)": ([["9" * 17, "9" + "0" * 17]], ["9" * 18, "1"], "1" + "0" * 18),
    "DECIMAL(20, 2)": ([["9" * 18 + ".98", "0.01"]], ["9" * 18 + ".99", "0.01"], None),
    "DECIMAL(38, 0)": ([["9" * 37 + "8", "1"], ["-" + "9" * 37 + "8", "-1"]], ["9" * 38, "1"], None),
}
PRODUCTS: dict[str, tuple[list[list[Any]], list[Any], Any]] = {
    "TINYINT": ([[-127, -1], [64, -2]], [127, 127], 1),
    "INT": ([[2**30, -2], [1 - 2**31, -1]], [2**30, 2], -(2**31)),
    "BIGINT": ([[2**62, -2], [1 - 2**63, -1]], [2**62, 2], -(2**63)),
    "DECIMAL(4, 2)": ([["33.33", "3.00"], ["-9.99", "10.00"]], ["99.99", "99.99"], None),
    "DECIMAL(38, 0)": ([["3" * 38, "3"]], ["9" * 38, "2"], None),
}
CASES = [*(("sum", of, *rows) for of, rows in SUMS.items()), *(("product", of, *rows) for of, rows in PRODUCTS.items())]


@pytest.mark.parametrize(("function", "of", "within", "beyond", "by_java"), CASES)
def test_numbers_have_javas_limits_and_exceeding_them_is_an_error(
    java_paimon: JavaPaimon, tmp_path: Path, function: str, of: str, within: list[list[Any]], beyond: Any, by_java: Any
) -> None:
    options = {"bucket": "1", "write-only": "true", "merge-engine": "aggregation"}
    ours, java = interbed_table(tmp_path, "db.t"), java_paimon.table(tmp_path, "db.t")
    chosen = {**options, "fields.v.aggregate-function": function}
    ours.create([("id", "INT NOT NULL"), ("v", of)], primary_keys=["id"], options=chosen)
    java.write([[key, first] for key, (first, _) in enumerate(within)])
    ours.write([[key, second] for key, (_, second) in enumerate(within)])
    assert ours.read().comparable() == java.read().comparable()
    java.write([[9, beyond[0]]])
    ours.write([[9, beyond[1]]])
    assert java.read().comparable()[-1] == [9, by_java]
    for attempt in (ours.read, ours.compact):
        with pytest.raises(InvalidInputError, match=f"'{function}' of column 'v' makes .*, which its type"):
            attempt()
