SELECT su_nationkey AS supp_nation,
    substr(c_state, 1, 1) AS cust_nation,
    extract(YEAR FROM o_entry_d) AS l_year,
    sum(ol_amount) AS revenue
FROM order_line
JOIN stock ON s_w_id = ol_supply_w_id AND s_i_id = ol_i_id
JOIN supplier ON su_suppkey = mod(s_w_id * s_i_id, 10000)
JOIN orders ON o_w_id = ol_w_id AND o_d_id = ol_d_id AND o_id = ol_o_id
JOIN customer ON c_w_id = o_w_id AND c_d_id = o_d_id AND c_id = o_c_id
JOIN nation n1 ON n1.n_nationkey = su_nationkey
JOIN nation n2 ON n2.n_nationkey = ascii(substr(c_state, 1, 1))
WHERE (n1.n_name = 'Germany' AND n2.n_name = 'Cambodia' OR n1.n_name = 'Cambodia' AND n2.n_name = 'Germany')
AND ol_delivery_d BETWEEN DATE '2007-01-02' AND DATE '2100-01-02'
GROUP BY su_nationkey, substr(c_state, 1, 1), extract(YEAR FROM o_entry_d)
ORDER BY supp_nation, cust_nation, l_year
