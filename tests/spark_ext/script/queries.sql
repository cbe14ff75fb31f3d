-- Queries over tables of either kind: filters, joins, subqueries, windows, nulls, ordering.
CREATE TABLE customers (id INT NOT NULL, name STRING, region STRING) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1');
CREATE TABLE orders (id INT, customer INT, amount DOUBLE, dt STRING) PARTITIONED BY (dt);
INSERT INTO customers VALUES (1, 'ann', 'north'), (2, 'bob', 'south'), (3, 'cyd', NULL), (4, 'dan', 'north');
INSERT INTO orders VALUES (10, 1, 5.0, 'mon'), (11, 1, 7.5, 'tue'), (12, 2, 1.0, 'mon'), (13, 9, 2.0, 'tue'), (14, NULL, 4.0, NULL);
SELECT c.name, o.amount FROM customers c JOIN orders o ON c.id = o.customer ORDER BY o.id;
-- ann, 5.0
-- ann, 7.5
-- bob, 1.0
SELECT c.name, o.id FROM customers c LEFT JOIN orders o ON c.id = o.customer AND o.dt = 'mon' ORDER BY c.id;
-- ann, 10
-- bob, 12
-- cyd, null
-- dan, null
SELECT o.id FROM orders o LEFT ANTI JOIN customers c ON c.id = o.customer ORDER BY o.id;
-- 13
-- 14
SELECT c.name FROM customers c LEFT SEMI JOIN orders o ON c.id = o.customer ORDER BY c.name;
-- ann
-- bob
SELECT count(*) FROM customers FULL OUTER JOIN orders ON customers.id = orders.customer;
-- 7
SELECT count(*) FROM customers CROSS JOIN orders;
-- 20
SELECT name FROM customers WHERE id IN (SELECT customer FROM orders WHERE amount > 2) ORDER BY 1;
-- ann
SELECT name FROM customers c WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.customer = c.id) ORDER BY 1;
-- cyd
-- dan
SELECT name, (SELECT sum(amount) FROM orders o WHERE o.customer = c.id) FROM customers c ORDER BY id;
-- ann, 12.5
-- bob, 1.0
-- cyd, null
-- dan, null
SELECT region, count(*) AS n FROM customers GROUP BY region ORDER BY n DESC, region NULLS LAST;
-- north, 2
-- south, 1
-- null, 1
SELECT region FROM customers GROUP BY region HAVING count(*) > 1;
-- north
SELECT DISTINCT dt FROM orders ORDER BY dt NULLS FIRST;
-- null
-- mon
-- tue
SELECT id, sum(amount) OVER (PARTITION BY customer ORDER BY id) FROM orders WHERE customer = 1 ORDER BY id;
-- 10, 5.0
-- 11, 12.5
SELECT id, rank() OVER (ORDER BY amount DESC) AS r FROM orders ORDER BY r LIMIT 2;
-- 11, 1
-- 10, 2
SELECT dt, customer, sum(amount) FROM orders WHERE customer IS NOT NULL GROUP BY ROLLUP (dt, customer) ORDER BY dt NULLS FIRST, customer NULLS FIRST;
-- null, null, 15.5
-- mon, null, 6.0
-- mon, 1, 5.0
-- mon, 2, 1.0
-- tue, null, 9.5
-- tue, 1, 7.5
-- tue, 9, 2.0
WITH big AS (SELECT * FROM orders WHERE amount >= 4), small AS (SELECT * FROM orders WHERE amount < 4) SELECT (SELECT count(*) FROM big), (SELECT count(*) FROM small);
-- 3, 2
SELECT id FROM orders WHERE dt = 'mon' UNION SELECT id FROM customers WHERE id < 3 ORDER BY id;
-- 1
-- 2
-- 10
-- 12
SELECT id FROM customers INTERSECT SELECT customer FROM orders ORDER BY id;
-- 1
-- 2
SELECT customer FROM orders EXCEPT SELECT id FROM customers ORDER BY customer;
-- null
-- 9
SELECT id FROM orders ORDER BY amount DESC LIMIT 2 OFFSET 1;
-- 10
-- 14
SELECT count(*) FROM (SELECT * FROM orders LIMIT 3);
-- 3
SELECT * FROM orders WHERE dt IS NULL;
-- 14, null, 4.0, null
SELECT id FROM orders WHERE dt <> 'mon' ORDER BY id;
-- 11
-- 13
SELECT id FROM orders WHERE dt = 'mon' OR amount > 7 ORDER BY id;
-- 10
-- 11
-- 12
SELECT id FROM orders WHERE NOT (dt = 'mon' AND amount > 2) ORDER BY id;
-- 11
-- 12
-- 13
SELECT id FROM orders WHERE customer NOT IN (1, 2);
-- 13
SELECT id FROM orders WHERE customer <=> NULL;
-- 14
SELECT id FROM orders WHERE amount BETWEEN 2 AND 5 ORDER BY id;
-- 10
-- 13
-- 14
SELECT name FROM customers WHERE name LIKE '%n' OR name LIKE 'b_b' ORDER BY name;
-- ann
-- bob
-- dan
SELECT name FROM customers WHERE startswith(name, 'c') OR endswith(name, 'ob') OR contains(name, 'an') ORDER BY name;
-- ann
-- bob
-- cyd
-- dan
SELECT name FROM customers WHERE upper(region) = 'NORTH' AND id % 2 = 0;
-- dan
SELECT coalesce(region, '?'), CASE WHEN id > 2 THEN 'late' ELSE 'early' END FROM customers ORDER BY id;
-- north, early
-- south, early
-- ?, late
-- north, late
SELECT max(amount), min(dt), count(DISTINCT customer), avg(amount) FROM orders;
-- 7.5, mon, 3, 3.9
SELECT count(*), count(region), sum(id) FROM customers WHERE id > 100;
-- 0, 0, null
SELECT * FROM (SELECT dt, amount FROM orders) PIVOT (sum(amount) FOR dt IN ('mon', 'tue'));
-- 6.0, 9.5

-- Paimon 0.9: Spark 3.5 has no LIMIT in a correlated subquery.
SELECT c.name, o.amount FROM customers c, LATERAL (SELECT amount FROM orders o WHERE o.customer = c.id ORDER BY amount DESC LIMIT 1) o ORDER BY c.name;
-- ann, 7.5
-- bob, 1.0
SELECT collect_list(name) FROM (SELECT name FROM customers ORDER BY id);
-- [ann, bob, cyd, dan]
SELECT missing FROM orders;
-- ! UNRESOLVED_COLUMN
SELECT * FROM missing;
-- ! TABLE_OR_VIEW_NOT_FOUND
CREATE TEMPORARY VIEW monday AS SELECT * FROM orders WHERE dt = 'mon';
SELECT sum(amount) FROM monday;
-- 6.0
DROP VIEW monday;
CACHE TABLE customers;
INSERT INTO customers VALUES (5, 'eve', 'east');
SELECT count(*) FROM customers;
-- 5
UNCACHE TABLE customers;
