-- Time travel and system tables.
CREATE TABLE t (id INT NOT NULL, v STRING) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1');
INSERT INTO t VALUES (1, 'a');
INSERT INTO t VALUES (1, 'b'), (2, 'c');
INSERT INTO t VALUES (3, 'd');
SELECT * FROM t VERSION AS OF 1;
-- 1, a
SELECT * FROM t FOR VERSION AS OF 2 ORDER BY id;
-- 1, b
-- 2, c
SELECT * FROM t FOR SYSTEM_VERSION AS OF 3 WHERE id = 3;
-- 3, d
SELECT count(*) FROM t VERSION AS OF 3;
-- 3
SELECT now.v, before.v FROM t AS now JOIN (SELECT * FROM t VERSION AS OF 1) AS before ON now.id = before.id;
-- b, a
SELECT * FROM t VERSION AS OF 99;
-- ! 99

-- Paimon 0.9: reads the table when there was no snapshot yet.
SELECT * FROM t TIMESTAMP AS OF '2001-01-01';
-- ! No snapshot is as old
SELECT snapshot_id, commit_kind, total_record_count FROM `t$snapshots` ORDER BY snapshot_id;
-- 1, APPEND, 1
-- 2, APPEND, 3
-- 3, APPEND, 4
SELECT schema_id, fields FROM `t$schemas`;
-- 0, [{"id":0,"name":"id","type":"INT NOT NULL"},{"id":1,"name":"v","type":"STRING"}]
SELECT key, value FROM `t$options` WHERE key = 'bucket';
-- bucket, 1
SELECT count(*), sum(record_count), max(level) FROM `t$files`;
-- 3, 4, 0
SELECT rowkind, id, v FROM `t$audit_log` ORDER BY id;
-- +I, 1, b
-- +I, 2, c
-- +I, 3, d
SELECT count(*) FROM `t$manifests`;
-- 3
SELECT * FROM `t$tags`;
-- (nothing)

-- Paimon 0.9: does not say which system tables there are.
SELECT * FROM `t$nonsense`;
-- ! no system table 'nonsense'
SET `spark.paimon.scan.snapshot-id`=1;
SELECT * FROM t;
-- 1, a
RESET `spark.paimon.scan.snapshot-id`;
SELECT count(*) FROM t;
-- 3
CREATE TABLE parts (id INT, dt STRING) PARTITIONED BY (dt);
INSERT INTO parts VALUES (1, 'a'), (2, 'b');

-- Paimon 0.9: partitions are written otherwise since 1.0.
SELECT partition, record_count FROM `parts$partitions` ORDER BY partition;
-- dt=a, 1
-- dt=b, 1

-- Paimon 0.9: partitions are written otherwise since 1.0.
SELECT partition, record_count FROM `parts$files` ORDER BY partition;
-- {a}, 1
-- {b}, 1
