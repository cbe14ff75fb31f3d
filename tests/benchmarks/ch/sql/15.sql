WITH revenue AS (
    SELECT mod(s_w_id * s_i_id, 10000) AS supplier_no, sum(ol_amount) AS total_revenue
    FROM order_line
    JOIN stock ON s_w_id = ol_supply_w_id AND s_i_id = ol_i_id
    WHERE ol_delivery_d >= DATE '2007-01-02'
    GROUP BY mod(s_w_id * s_i_id, 10000)
)
SELECT su_suppkey, su_name, su_address, su_phone, total_revenue
FROM supplier
JOIN revenue ON supplier_no = su_suppkey
WHERE total_revenue = (SELECT max(total_revenue) FROM revenue)
ORDER BY su_suppkey
