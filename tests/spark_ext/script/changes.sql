-- UPDATE, DELETE and MERGE INTO, on tables with a primary key, on append tables, and what is refused.
CREATE TABLE orders (id INT NOT NULL, status STRING, amount INT) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '2');
INSERT INTO orders VALUES (1, 'new', 10), (2, 'new', 20), (3, 'paid', 30), (4, NULL, NULL);
UPDATE orders SET amount = amount + 1 WHERE id = 1;
SELECT * FROM orders WHERE id = 1;
-- 1, new, 11
UPDATE orders SET amount = id * 100, status = concat(status, '!') WHERE status = 'new' AND amount > 11;
SELECT * FROM orders ORDER BY id;
-- 1, new, 11
-- 2, new!, 200
-- 3, paid, 30
-- 4, null, null
UPDATE orders SET status = 'none' WHERE status IS NULL;
UPDATE orders AS o SET o.amount = 0 WHERE o.amount IS NULL;
SELECT status, amount FROM orders WHERE id = 4;
-- none, 0
UPDATE orders SET amount = (SELECT max(x) FROM VALUES (7), (8) AS v(x)) WHERE id = 3;
SELECT amount FROM orders WHERE id = 3;
-- 8
UPDATE orders SET status = NULL WHERE id IN (SELECT x FROM VALUES (3), (99) AS v(x));
SELECT id FROM orders WHERE status IS NULL;
-- 3
UPDATE orders SET amount = 5 WHERE id = 1000;
SELECT count(*) FROM orders WHERE amount = 5;
-- 0
UPDATE orders SET missing = 1;
-- ! missing
UPDATE orders SET id = id + 1;
-- ! primary key
DELETE FROM orders WHERE id = 1;
DELETE FROM orders WHERE amount > 1000 OR status LIKE 'zz%';
SELECT id FROM orders ORDER BY id;
-- 2
-- 3
-- 4
DELETE FROM orders WHERE id IN (SELECT x + 1 FROM VALUES (1) AS v(x));
SELECT id FROM orders ORDER BY id;
-- 3
-- 4
DELETE FROM orders AS o WHERE EXISTS (SELECT 1 FROM VALUES (4) AS v(x) WHERE v.x = o.id);
SELECT * FROM orders;
-- 3, null, 8
DELETE FROM orders;
SELECT count(*) FROM orders;
-- 0
INSERT INTO orders VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3);
TRUNCATE TABLE orders;
SELECT count(*) FROM orders;
-- 0

CREATE TABLE changes (id INT, status STRING, amount INT, gone BOOLEAN);
INSERT INTO orders VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3);
INSERT INTO changes VALUES (1, 'A', 10, false), (2, 'B', 20, true), (4, 'D', 40, false), (5, 'E', 50, true);
MERGE INTO orders t USING changes s ON t.id = s.id
  WHEN MATCHED AND s.gone THEN DELETE
  WHEN MATCHED THEN UPDATE SET amount = s.amount + t.amount, status = lower(s.status)
  WHEN NOT MATCHED AND NOT s.gone THEN INSERT (id, status, amount) VALUES (s.id, s.status, s.amount);
SELECT * FROM orders ORDER BY id;
-- 1, a, 11
-- 3, c, 3
-- 4, D, 40
MERGE INTO orders USING (SELECT 1 AS id, 'star' AS status, 111 AS amount UNION ALL SELECT 9, 'nine', 9) AS s ON orders.id = s.id
  WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *;
SELECT * FROM orders WHERE id IN (1, 9) ORDER BY id;
-- 1, star, 111
-- 9, nine, 9
MERGE INTO orders t USING (SELECT 3 AS id) s ON t.id = s.id
  WHEN MATCHED THEN UPDATE SET status = 'kept'
  WHEN NOT MATCHED BY SOURCE AND t.amount > 100 THEN DELETE
  WHEN NOT MATCHED BY SOURCE THEN UPDATE SET amount = -1;
SELECT * FROM orders ORDER BY id;
-- 3, kept, 3
-- 4, D, -1
-- 9, nine, -1
MERGE INTO orders t USING (SELECT * FROM VALUES (3), (3) AS v(id)) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET amount = 7;
-- ! MERGE_CARDINALITY_VIOLATION
SELECT amount FROM orders WHERE id = 3;
-- 3
WITH fresh AS (SELECT 3 AS id, 33 AS amount)
MERGE INTO orders t USING fresh s ON t.id = s.id WHEN MATCHED THEN UPDATE SET amount = s.amount;
SELECT amount FROM orders WHERE id = 3;
-- 33
MERGE INTO orders t USING changes s ON t.id = s.id AND s.id > 1000 WHEN MATCHED THEN DELETE;
SELECT count(*) FROM orders;
-- 3
MERGE INTO orders t USING orders s ON t.id = s.id + 1 WHEN MATCHED THEN UPDATE SET amount = s.amount;
SELECT id, amount FROM orders ORDER BY id;
-- 3, 33
-- 4, 33
-- 9, -1

CREATE TABLE log (id INT, v STRING, dt STRING) PARTITIONED BY (dt);
INSERT INTO log VALUES (1, 'a', 'x'), (2, 'b', 'x'), (2, 'bb', 'y'), (3, 'c', NULL);
UPDATE log SET v = upper(v) WHERE id = 2;
SELECT * FROM log ORDER BY id, dt;
-- 1, a, x
-- 2, B, x
-- 2, BB, y
-- 3, c, null
UPDATE log SET dt = 'moved' WHERE id = 1;
SELECT id, v FROM log WHERE dt = 'moved';
-- 1, a
DELETE FROM log WHERE dt = 'y';
DELETE FROM log WHERE v = 'c';
SELECT * FROM log ORDER BY id;
-- 1, a, moved
-- 2, B, x
MERGE INTO log t USING (SELECT * FROM VALUES (1, 'one', 'moved'), (7, 'seven', 'new') AS v(id, v, dt)) s ON t.id = s.id AND t.dt = s.dt
  WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *;
SELECT * FROM log ORDER BY id;
-- 1, one, moved
-- 2, B, x
-- 7, seven, new
DELETE FROM log WHERE dt IN ('x', 'new') AND id > 2;
SELECT id FROM log ORDER BY id;
-- 1
-- 2

CREATE TABLE marked (id INT, v INT) TBLPROPERTIES ('deletion-vectors.enabled' = 'true');
INSERT INTO marked SELECT id, id % 3 FROM range(0, 10);
DELETE FROM marked WHERE v = 1;
UPDATE marked SET v = v * 10 WHERE id > 5;
SELECT * FROM marked ORDER BY id;
-- 0, 0
-- 2, 2
-- 3, 0
-- 5, 2
-- 6, 0
-- 8, 20
-- 9, 0
MERGE INTO marked t USING (SELECT * FROM VALUES (2, 22), (11, 11) AS s(id, v)) s ON t.id = s.id
  WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *;
SELECT sum(id), sum(v), count(*) FROM marked;
-- 44, 55, 8

CREATE TABLE keyed_marked (id INT NOT NULL, v INT) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1', 'deletion-vectors.enabled' = 'true');
INSERT INTO keyed_marked SELECT CAST(id AS INT), 0 FROM range(0, 6);
UPDATE keyed_marked SET v = 1 WHERE id < 2;
DELETE FROM keyed_marked WHERE id = 5;
SELECT v, count(*) FROM keyed_marked GROUP BY v ORDER BY v;
-- 0, 3
-- 1, 2

CREATE TABLE firsts (id INT NOT NULL, v INT) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1', 'merge-engine' = 'first-row');
INSERT INTO firsts VALUES (1, 1);
DELETE FROM firsts WHERE v = 1;
-- ! first
UPDATE firsts SET v = 2;
-- ! first
CREATE TABLE patches (id INT NOT NULL, a INT, b INT) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1', 'merge-engine' = 'partial-update');
INSERT INTO patches VALUES (1, 1, 1);
DELETE FROM patches WHERE a = 1;
-- ! partial
SELECT count(*) FROM patches;
-- 1
