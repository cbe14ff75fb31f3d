-- Columns added, dropped, renamed, moved, widened; older files read with the newer schema.
CREATE TABLE t (id INT NOT NULL, a INT, b STRING) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1');
INSERT INTO t VALUES (1, 10, 'x');
ALTER TABLE t ADD COLUMN c DOUBLE COMMENT 'new';
INSERT INTO t VALUES (2, 20, 'y', 2.5);
SELECT * FROM t ORDER BY id;
-- 1, 10, x, null
-- 2, 20, y, 2.5
SELECT id FROM t WHERE c IS NULL;
-- 1
ALTER TABLE t ADD COLUMNS (first_one STRING FIRST, after_a INT AFTER a);
DESCRIBE t;
-- first_one, string, ...
-- id, int, ...
-- a, int, ...
-- after_a, int, ...
-- b, string, ...
-- c, double, new
ALTER TABLE t DROP COLUMN first_one;
ALTER TABLE t DROP COLUMNS (after_a);
ALTER TABLE t RENAME COLUMN b TO label;
SELECT id, label FROM t WHERE label = 'x';
-- 1, x
ALTER TABLE t ALTER COLUMN a TYPE BIGINT;
INSERT INTO t VALUES (3, 30000000000, 'z', 3.5);
SELECT * FROM t ORDER BY id;
-- 1, 10, x, null
-- 2, 20, y, 2.5
-- 3, 30000000000, z, 3.5
SELECT id FROM t WHERE a > 15 ORDER BY id;
-- 2
-- 3
ALTER TABLE t ALTER COLUMN a COMMENT 'how much';
ALTER TABLE t ALTER COLUMN c FIRST;
ALTER TABLE t ALTER COLUMN label AFTER id;

-- Paimon 0.9: loses the row when columns have been moved.
SELECT * FROM t WHERE id = 2;
-- 2.5, 2, y, 20
ALTER TABLE t DROP COLUMN id;
-- ! id
ALTER TABLE t RENAME COLUMN missing TO other;
-- ! missing
ALTER TABLE t ADD COLUMN label INT;
-- ! label
ALTER TABLE t ALTER COLUMN label TYPE INT;
-- ! label
ALTER TABLE t DROP COLUMN label;
ALTER TABLE t ADD COLUMN label STRING;
SELECT id, label FROM t ORDER BY id;
-- 1, null
-- 2, null
-- 3, null
SELECT * FROM t VERSION AS OF 1;
-- 1, 10, x
CREATE TABLE parts (id INT, dt STRING) PARTITIONED BY (dt);
INSERT INTO parts VALUES (1, 'a');
ALTER TABLE parts ADD COLUMN v INT;
INSERT INTO parts VALUES (2, 'a', 5);
SELECT * FROM parts ORDER BY id;
-- 1, a, null
-- 2, a, 5
ALTER TABLE parts DROP COLUMN dt;
-- ! dt
