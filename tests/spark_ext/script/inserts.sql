-- INSERT in all its forms: append tables, upserts, columns by name, defaults, overwrites.
CREATE TABLE log (id INT, name STRING, at DATE);
INSERT INTO log VALUES (1, 'a', DATE'2024-01-01'), (1, 'a', DATE'2024-01-01');
SELECT * FROM log;
-- 1, a, 2024-01-01
-- 1, a, 2024-01-01
INSERT INTO log (name, id) VALUES ('b', 2);
SELECT * FROM log WHERE id = 2;
-- 2, b, null
INSERT INTO log SELECT id + 10, upper(name), at FROM log WHERE id = 2;
SELECT * FROM log WHERE id > 10;
-- 12, B, null
INSERT INTO log BY NAME SELECT 'c' AS name, 3 AS id, CAST(NULL AS DATE) AS at;
SELECT count(*), count(at), min(id), max(name) FROM log;
-- 5, 2, 1, c

-- Paimon 0.9: an error of its own for the number of columns.
INSERT INTO log VALUES (1, 'a');
-- ! INSERT_COLUMN_ARITY_MISMATCH

-- Paimon 0.9: writes null for what can't be cast; so there is a row more below.
INSERT INTO log VALUES ('text', 'a', NULL);
-- ! CANNOT_SAFELY_CAST
INSERT INTO log SELECT * FROM log WHERE false;

-- Paimon 0.9: counts that row.
SELECT count(*) FROM log;
-- 5
INSERT INTO log TABLE log;

-- Paimon 0.9: counts that row twice.
SELECT count(*) FROM log;
-- 10
INSERT OVERWRITE log VALUES (9, 'only', NULL);
SELECT * FROM log;
-- 9, only, null
INSERT OVERWRITE log SELECT * FROM log WHERE false;
SELECT count(*) FROM log;
-- 0

CREATE TABLE current (id INT NOT NULL, name STRING, amount DECIMAL(10, 2)) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '2');
INSERT INTO current VALUES (1, 'a', 1.00), (2, 'b', 2.00), (3, 'c', 3.00);
INSERT INTO current VALUES (2, 'B', 2.50), (4, 'd', 4.00);
INSERT INTO current VALUES (5, 'first', 1), (5, 'last', 2);
SELECT * FROM current ORDER BY id;
-- 1, a, 1.00
-- 2, B, 2.50
-- 3, c, 3.00
-- 4, d, 4.00
-- 5, last, 2.00
INSERT INTO current VALUES (NULL, 'n', 0);
-- ! ull
SELECT * FROM current WHERE id = 2 AND name = 'b';
-- (nothing)
SELECT sum(amount) FROM current WHERE amount > 2;
-- 9.50

CREATE TABLE days (id INT, v STRING, dt STRING) PARTITIONED BY (dt);
INSERT INTO days VALUES (1, 'a', '01'), (2, 'b', '02');
INSERT INTO days PARTITION (dt = '03') VALUES (3, 'c');
SELECT * FROM days ORDER BY id;
-- 1, a, 01
-- 2, b, 02
-- 3, c, 03
INSERT OVERWRITE days PARTITION (dt = '02') VALUES (22, 'bb');
SELECT * FROM days ORDER BY dt;
-- 1, a, 01
-- 22, bb, 02
-- 3, c, 03
SET spark.sql.sources.partitionOverwriteMode=dynamic;
INSERT OVERWRITE days VALUES (11, 'aa', '01');
SELECT * FROM days ORDER BY dt;
-- 11, aa, 01
-- 22, bb, 02
-- 3, c, 03
SET spark.sql.sources.partitionOverwriteMode=static;
INSERT OVERWRITE days VALUES (4, 'd', '04');
SELECT * FROM days;
-- 4, d, 04
INSERT INTO days VALUES (5, 'none', NULL);
SELECT * FROM days WHERE dt IS NULL;
-- 5, none, null
INSERT INTO days VALUES (6, 'slash', 'a/b=c d%');
SELECT * FROM days WHERE dt = 'a/b=c d%';
-- 6, slash, a/b=c d%

CREATE TABLE sums (k INT NOT NULL, total BIGINT, latest STRING) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1', 'merge-engine' = 'aggregation', 'fields.total.aggregate-function' = 'sum', 'fields.latest.aggregate-function' = 'last_non_null_value');
INSERT INTO sums VALUES (1, 10, 'a'), (2, 5, 'b');
INSERT INTO sums VALUES (1, 5, NULL), (2, -5, 'c');
SELECT * FROM sums ORDER BY k;
-- 1, 15, a
-- 2, 0, c
CREATE TABLE patches (k INT NOT NULL, a STRING, b INT) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1', 'merge-engine' = 'partial-update');
INSERT INTO patches VALUES (1, 'a', NULL);
INSERT INTO patches VALUES (1, NULL, 2), (2, 'x', NULL);
SELECT * FROM patches ORDER BY k;
-- 1, a, 2
-- 2, x, null
CREATE TABLE firsts (k INT NOT NULL, v STRING) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1', 'merge-engine' = 'first-row', 'changelog-producer' = 'lookup');
INSERT INTO firsts VALUES (1, 'first');
INSERT INTO firsts VALUES (1, 'second'), (2, 'other');
SELECT * FROM firsts ORDER BY k;
-- 1, first
-- 2, other
CREATE TABLE versions (k INT NOT NULL, v STRING, ver INT) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1', 'sequence.field' = 'ver');
INSERT INTO versions VALUES (1, 'new', 5);
INSERT INTO versions VALUES (1, 'old', 3), (2, 'only', 1);
SELECT * FROM versions ORDER BY k;
-- 1, new, 5
-- 2, only, 1
CREATE TABLE dynamic (dt STRING NOT NULL, id INT NOT NULL, v INT) PARTITIONED BY (dt) TBLPROPERTIES ('primary-key' = 'dt,id', 'bucket' = '-1');
INSERT INTO dynamic VALUES ('a', 1, 1), ('b', 1, 2);
INSERT INTO dynamic VALUES ('a', 1, 10), ('a', 2, 3);
SELECT * FROM dynamic ORDER BY dt, id;
-- a, 1, 10
-- a, 2, 3
-- b, 1, 2

CREATE TABLE moving (id INT NOT NULL, v STRING, dt STRING) PARTITIONED BY (dt) TBLPROPERTIES ('primary-key' = 'id');
INSERT INTO moving VALUES (1, 'old', 'a'), (2, 'old', 'a'), (3, 'old', 'b'), (4, 'old', 'b');
INSERT OVERWRITE moving PARTITION (dt = 'a') VALUES (2, 'new'), (3, 'new');
SELECT * FROM moving;
-- 2, new, a
-- 3, new, a
-- 4, old, b
SET spark.sql.sources.partitionOverwriteMode = dynamic;
INSERT OVERWRITE moving VALUES (2, 'newer', 'b');
SELECT * FROM moving;
-- 2, newer, b
-- 3, new, a
SET spark.sql.sources.partitionOverwriteMode = static;
