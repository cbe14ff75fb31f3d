"""Consistency conditions between transactions: conditions 1 to 4 of clause 3.3.2, and 8 and 9, which compare payments
with their history.
"""

from collections.abc import Mapping
from typing import Any

CONDITIONS: Mapping[str, str] = {
    "1: what a warehouse was paid is what its districts were": """
        SELECT w_id, w_ytd, sum(d_ytd) FROM warehouse LEFT JOIN district ON d_w_id = w_id
        GROUP BY w_id, w_ytd HAVING w_ytd IS DISTINCT FROM sum(d_ytd)
    """,
    "2: the next order of a district follows on its last one, which is the newest of the new ones": """
        SELECT d_w_id, d_id, d_next_o_id FROM district
        WHERE d_next_o_id - 1 <> (SELECT max(o_id) FROM orders WHERE o_w_id = d_w_id AND o_d_id = d_id)
        OR d_next_o_id - 1 <> (SELECT max(no_o_id) FROM new_order WHERE no_w_id = d_w_id AND no_d_id = d_id)
    """,
    "3: the new orders of a district have numbers without gaps": """
        SELECT no_w_id, no_d_id, count(*) FROM new_order
        GROUP BY no_w_id, no_d_id HAVING max(no_o_id) - min(no_o_id) + 1 <> count(*)
    """,
    "4: a district has as many lines as its orders say": """
        SELECT d_w_id, d_id FROM district
        WHERE (SELECT sum(o_ol_cnt) FROM orders WHERE o_w_id = d_w_id AND o_d_id = d_id)
        IS DISTINCT FROM (SELECT count(*) FROM order_line WHERE ol_w_id = d_w_id AND ol_d_id = d_id)
    """,
    "8: what a warehouse was paid is in the history": """
        SELECT w_id, w_ytd FROM warehouse WHERE w_ytd <> (SELECT sum(h_amount) FROM history WHERE h_w_id = w_id)
    """,
    "9: what a district was paid is in the history": """
        SELECT d_w_id, d_id, d_ytd FROM district
        WHERE d_ytd <> (SELECT sum(h_amount) FROM history WHERE h_w_id = d_w_id AND h_d_id = d_id)
    """,
}
"""Query of the rows that violate each condition."""


def violations(connection: Any) -> dict[str, list[tuple[Any, ...]]]:
    """Return the violated conditions, with the rows that violate them."""
    found = {condition: connection.execute(query.encode()).fetchall() for condition, query in CONDITIONS.items()}
    return {condition: rows for condition, rows in found.items() if rows}
