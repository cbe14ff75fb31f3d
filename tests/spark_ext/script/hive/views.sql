-- Views, which a metastore keeps, and what Hive catalogs do otherwise.
CREATE TABLE t (id INT, name STRING);
INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c');
CREATE VIEW v AS SELECT id, upper(name) AS name FROM t WHERE id > 1;
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
CREATE OR REPLACE VIEW v (k COMMENT 'the key') COMMENT 'keys' AS SELECT id FROM t;
SELECT * FROM v WHERE k < 3 ORDER BY k;
-- 1
-- 2
DESCRIBE v;
-- k, int, the key
SHOW VIEWS;
-- views, v, false
SHOW TABLES;
-- views, t, false
CREATE VIEW of_view AS SELECT max(k) AS m FROM v;
SELECT m FROM of_view;
-- 3
INSERT INTO t VALUES (4, 'd');
SELECT m FROM of_view;
-- 4
ALTER VIEW v AS SELECT id AS k FROM t WHERE id < 3;
SELECT m FROM of_view;
-- 2
ALTER VIEW v RENAME TO w;
SELECT k FROM w ORDER BY k;
-- 1
-- 2
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
SHOW PARTITIONS days;
-- dt=a
-- dt=b
/* It is registered, and shown once it has rows. */
ALTER TABLE days ADD PARTITION (dt = 'c');
SHOW PARTITIONS days;
-- dt=a
-- dt=b
ALTER TABLE days DROP PARTITION (dt = 'a');
SELECT * FROM days;
-- 2, b
CALL sys.repair('views.days');
-- true
