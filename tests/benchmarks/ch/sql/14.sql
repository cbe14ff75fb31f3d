SELECT 100.00 * sum(CASE WHEN i_data LIKE 'PR%' THEN ol_amount ELSE 0 END) / (1 + sum(ol_amount)) AS promo_revenue
FROM order_line
JOIN item ON i_id = ol_i_id
WHERE ol_delivery_d >= DATE '2007-01-02'
AND ol_delivery_d < DATE '2100-01-02'
