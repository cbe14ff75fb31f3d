SELECT extract(YEAR FROM o_entry_d) AS l_year,
    sum(CASE WHEN n2.n_name = 'Germany' THEN ol_amount ELSE 0 END) / sum(ol_amount) AS mkt_share
FROM order_line
JOIN item ON i_id = ol_i_id
JOIN stock ON s_w_id = ol_supply_w_id AND s_i_id = ol_i_id
JOIN supplier ON su_suppkey = mod(s_w_id * s_i_id, 10000)
JOIN orders ON o_w_id = ol_w_id AND o_d_id = ol_d_id AND o_id = ol_o_id
JOIN customer ON c_w_id = o_w_id AND c_d_id = o_d_id AND c_id = o_c_id
JOIN nation n1 ON n1.n_nationkey = ascii(substr(c_state, 1, 1))
JOIN region ON r_regionkey = n1.n_regionkey
JOIN nation n2 ON n2.n_nationkey = su_nationkey
WHERE ol_i_id < 1000
AND r_name = 'Europe'
AND o_entry_d BETWEEN DATE '2007-01-02' AND DATE '2100-01-02'
AND i_data LIKE '%b'
GROUP BY extract(YEAR FROM o_entry_d)
ORDER BY l_year
