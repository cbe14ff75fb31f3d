-- Tables from queries and like others, partitions, statistics, formats.
CREATE TABLE base (id INT NOT NULL, name STRING COMMENT 'who', dt STRING NOT NULL) PARTITIONED BY (dt) TBLPROPERTIES ('primary-key' = 'dt,id', 'bucket' = '2');
INSERT INTO base VALUES (1, 'a', 'x'), (2, 'b', 'y'), (3, 'c', 'y');

CREATE TABLE alike LIKE base;
SHOW TBLPROPERTIES alike ('primary-key');
-- primary-key, dt,id
DESCRIBE alike;
-- id, int, ...
-- name, string, who
-- dt, string, ...
-- # Partition Information, ...
-- # col_name, data_type, comment
-- dt, string, ...
INSERT INTO alike SELECT id + 10, name, dt FROM base;
SELECT id FROM alike ORDER BY id;
-- 11
-- 12
-- 13

CREATE TABLE alike LIKE base;
-- ! There is a table 'around.alike'

CREATE TABLE chosen AS SELECT id, upper(name) AS name FROM base WHERE dt = 'y';
SELECT * FROM chosen ORDER BY id;
-- 2, B
-- 3, C
CREATE TABLE IF NOT EXISTS chosen AS SELECT 99 AS other;
SELECT count(*) FROM chosen;
-- 2
CREATE TABLE chosen AS SELECT 1 AS one;
-- ! exists
CREATE TABLE failed AS SELECT id, CAST(raise_error('no') AS STRING) AS v FROM base;
-- ! no
SELECT * FROM failed;
-- ! cannot be found
SHOW PARTITIONS base;
-- dt=x
-- dt=y
SHOW PARTITIONS base PARTITION (dt = 'x');
-- dt=x
ALTER TABLE base DROP PARTITION (dt = 'x');
SELECT id FROM base ORDER BY id;
-- 2
-- 3
ALTER TABLE base DROP IF EXISTS PARTITION (dt = 'nosuch');
ALTER TABLE base DROP PARTITION (dt = 'nosuch');
-- ! nosuch
TRUNCATE TABLE base PARTITION (dt = 'y');
SELECT count(*) FROM base;
-- 0
SHOW PARTITIONS base PARTITION (nosuch = 'x');
-- ! nosuch
CREATE TABLE hours (id INT, dt DATE, hour INT) PARTITIONED BY (dt, hour);
INSERT INTO hours VALUES (1, DATE'2024-01-01', 1), (2, DATE'2024-01-01', 2), (3, DATE'2024-01-02', 1);
SHOW PARTITIONS hours;
-- dt=2024-01-01/hour=1
-- dt=2024-01-01/hour=2
-- dt=2024-01-02/hour=1
SHOW PARTITIONS hours PARTITION (dt = DATE'2024-01-01');
-- dt=2024-01-01/hour=1
-- dt=2024-01-01/hour=2
SELECT id FROM hours WHERE dt = DATE'2024-01-01' AND hour > 1;
-- 2
INSERT OVERWRITE hours PARTITION (dt = '2024-01-01', hour = 2) SELECT 22;
SELECT id, hour FROM hours WHERE dt = DATE'2024-01-01' ORDER BY hour;
-- 1, 1
-- 22, 2
INSERT OVERWRITE hours PARTITION (dt = '2024-01-01', hour) SELECT 33, 3;
SELECT id, hour FROM hours ORDER BY hour, id;
-- 3, 1
-- 33, 3
INSERT INTO hours PARTITION (hour = 9, dt = '2024-01-09') (id) VALUES (9);
SELECT * FROM hours WHERE hour = 9;
-- 9, 2024-01-09, 9
ALTER TABLE hours DROP PARTITION (dt = DATE'2024-01-02');
SELECT id FROM hours ORDER BY id;
-- 9
-- 33
ALTER TABLE hours RENAME COLUMN hour TO h;
-- ! hour
CREATE TABLE counted (id INT, v STRING);
INSERT INTO counted SELECT id, concat('v', id % 4) FROM range(0, 20);
ANALYZE TABLE counted COMPUTE STATISTICS FOR COLUMNS id, v;
SELECT snapshot_id, mergedRecordCount FROM `counted$statistics`;
-- 1, 20
CREATE TABLE as_orc (id INT, v STRING) TBLPROPERTIES ('file.format' = 'orc');
INSERT INTO as_orc VALUES (1, 'x'), (2, NULL);
SELECT * FROM as_orc WHERE v IS NOT NULL;
-- 1, x
CREATE TABLE as_avro (id INT NOT NULL, v STRING) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1', 'file.format' = 'avro');
INSERT INTO as_avro VALUES (1, 'x'), (2, NULL);
INSERT INTO as_avro VALUES (1, 'y');
SELECT * FROM as_avro ORDER BY id;
-- 1, y
-- 2, null
SELECT DISTINCT file_format FROM `as_avro$files`;
-- avro
CREATE TABLE bucketed (id INT, v INT) TBLPROPERTIES ('bucket' = '3', 'bucket-key' = 'id');
INSERT INTO bucketed SELECT id, id * 2 FROM range(0, 30);
SELECT v FROM bucketed WHERE id = 7;
-- 14
SELECT count(DISTINCT bucket), sum(record_count) FROM `bucketed$files`;
-- 3, 30
CREATE TABLE indexed (id INT, v STRING) TBLPROPERTIES ('file-index.bloom-filter.columns' = 'v');
INSERT INTO indexed VALUES (1, 'x'), (2, 'y');
SELECT id FROM indexed WHERE v = 'y';
-- 2
SELECT id FROM indexed WHERE v = 'none';
-- (nothing)
COMMENT ON TABLE indexed IS 'said later';
ALTER TABLE indexed SET TBLPROPERTIES ('bucket' = '5');
-- ! bucket
ALTER TABLE indexed SET TBLPROPERTIES ('primary-key' = 'id');
-- ! primary-key
CREATE TABLE wrong (id INT) TBLPROPERTIES ('bucket' = 'many');
-- ! bucket
CREATE TABLE wrong (id INT) TBLPROPERTIES ('merge-engine' = 'magic', 'primary-key' = 'id', 'bucket' = '1');
-- ! magic
CREATE TABLE wrong (id INT, id STRING);
-- ! id
DROP DATABASE nosuch;
-- ! nosuch
DROP DATABASE IF EXISTS nosuch;
