WITH usual AS (
    SELECT i_id, avg(ol_quantity) AS quantity
    FROM item
    JOIN order_line ON ol_i_id = i_id
    WHERE i_data LIKE '%b'
    GROUP BY i_id
)
SELECT sum(ol_amount) / 2.0 AS avg_yearly
FROM order_line
JOIN usual ON i_id = ol_i_id
WHERE ol_quantity < quantity
