-- Views of a REST catalog: one that exists gets another query, comment and properties, and keeps its columns.
CREATE TABLE t (id INT, name STRING);
INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c');
CREATE VIEW v COMMENT 'some' TBLPROPERTIES ('a' = 'b') AS SELECT id, upper(name) AS name FROM t WHERE id > 1;
SELECT * FROM v ORDER BY id;
-- 2, B
-- 3, C
SELECT v.name, t.name FROM v JOIN t USING (id) ORDER BY id;
-- B, b
-- C, c
CREATE VIEW v AS SELECT 1 AS one;
-- ! already
CREATE VIEW IF NOT EXISTS v AS SELECT 1 AS one;
CREATE VIEW t AS SELECT 1 AS one;
-- ! already
CREATE OR REPLACE VIEW v AS SELECT id, lower(name) AS name FROM t;
SELECT * FROM v WHERE id < 3 ORDER BY id;
-- 1, a
-- 2, b
CREATE OR REPLACE VIEW v (k) AS SELECT id FROM t;
-- ! which are id int, name string, and would be k int
ALTER VIEW v UNSET TBLPROPERTIES ('a');
-- ! has no property 'a'
ALTER VIEW v SET TBLPROPERTIES ('c' = 'd', 'e' = 'f');
ALTER VIEW v UNSET TBLPROPERTIES ('e');
SHOW CREATE TABLE v;
-- ...'c' = 'd'...
DESCRIBE v;
-- id, int, null
-- name, string, null
SHOW VIEWS;
-- views, v, false
SHOW TABLES;
-- views, t, false
CREATE VIEW of_view AS SELECT max(id) AS m FROM v;
SELECT m FROM of_view;
-- 3
INSERT INTO t VALUES (4, 'd');
SELECT m FROM of_view;
-- 4
ALTER VIEW v AS SELECT id, name FROM t WHERE id < 3;
SELECT m FROM of_view;
-- 2
CALL sys.alter_view_dialect('views.v', 'update', 'spark', 'SELECT id, name FROM t WHERE id < 2');
-- true
SELECT m FROM of_view;
-- 1
ALTER VIEW v RENAME TO w;
SELECT id FROM w ORDER BY id;
-- 1
SELECT m FROM of_view;
-- ! cannot be found
DROP VIEW of_view;
DROP VIEW w;
DROP VIEW w;
-- ! no view
DROP VIEW IF EXISTS w;
SELECT * FROM w;
-- ! cannot be found
SHOW VIEWS;
-- (nothing)
CREATE TABLE days (id INT, dt STRING) PARTITIONED BY (dt) TBLPROPERTIES ('metastore.partitioned-table' = 'true');
INSERT INTO days VALUES (1, 'a'), (2, 'b');
ALTER TABLE days ADD PARTITION (dt = 'c');
SHOW PARTITIONS days;
-- dt=a
-- dt=b
ALTER TABLE days DROP PARTITION (dt = 'a');
SELECT * FROM days;
-- 2, b
