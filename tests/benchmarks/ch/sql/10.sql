SELECT c_id, c_last, sum(ol_amount) AS revenue, c_city, c_phone, n_name
FROM customer
JOIN orders ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id
JOIN order_line ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
JOIN nation ON n_nationkey = ascii(substr(c_state, 1, 1))
WHERE o_entry_d >= DATE '2007-01-02'
AND o_entry_d <= ol_delivery_d
GROUP BY c_id, c_last, c_city, c_phone, n_name
ORDER BY revenue DESC
