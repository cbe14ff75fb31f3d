SELECT o_ol_cnt,
    sum(CASE WHEN o_carrier_id IN (1, 2) THEN 1 ELSE 0 END) AS high_line_count,
    sum(CASE WHEN o_carrier_id NOT IN (1, 2) THEN 1 ELSE 0 END) AS low_line_count
FROM orders
JOIN order_line ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
WHERE o_entry_d <= ol_delivery_d
AND ol_delivery_d < DATE '2100-01-01'
GROUP BY o_ol_cnt
ORDER BY o_ol_cnt
