WITH europe AS (
    SELECT s_i_id, s_quantity, su_suppkey, su_name, su_address, su_phone, su_comment, n_name
    FROM stock
    JOIN supplier ON su_suppkey = mod(s_w_id * s_i_id, 10000)
    JOIN nation ON n_nationkey = su_nationkey
    JOIN region ON r_regionkey = n_regionkey
    WHERE r_name LIKE 'Europ%'
),
least AS (
    SELECT s_i_id AS m_i_id, min(s_quantity) AS m_s_quantity
    FROM europe
    GROUP BY s_i_id
)
SELECT su_suppkey, su_name, n_name, i_id, i_name, su_address, su_phone, su_comment
FROM item
JOIN europe ON s_i_id = i_id
JOIN least ON m_i_id = i_id AND m_s_quantity = s_quantity
WHERE i_data LIKE '%b'
ORDER BY n_name, su_name, i_id
