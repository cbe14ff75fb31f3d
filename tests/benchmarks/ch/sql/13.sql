WITH by_customer AS (
    SELECT c_id, count(o_id) AS c_count
    FROM customer
    LEFT JOIN orders ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id AND o_carrier_id > 8
    GROUP BY c_id
)
SELECT c_count, count(*) AS custdist
FROM by_customer
GROUP BY c_count
ORDER BY custdist DESC, c_count DESC
