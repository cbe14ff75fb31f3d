SELECT n_name, extract(YEAR FROM o_entry_d) AS l_year, sum(ol_amount) AS sum_profit
FROM order_line
JOIN item ON i_id = ol_i_id
JOIN stock ON s_w_id = ol_supply_w_id AND s_i_id = ol_i_id
JOIN supplier ON su_suppkey = mod(s_w_id * s_i_id, 10000)
JOIN orders ON o_w_id = ol_w_id AND o_d_id = ol_d_id AND o_id = ol_o_id
JOIN nation ON n_nationkey = su_nationkey
WHERE i_data LIKE '%BB'
GROUP BY n_name, extract(YEAR FROM o_entry_d)
ORDER BY n_name, l_year DESC
