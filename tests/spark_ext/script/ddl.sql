-- Tables made, described, altered, renamed and dropped.
CREATE TABLE plain (id INT, name STRING COMMENT 'who it is');
SHOW TABLES;
-- ddl, plain, false
DESCRIBE plain;
-- id, int, ...
-- name, string, who it is
CREATE TABLE plain (id INT);
-- ! already exists
CREATE TABLE IF NOT EXISTS plain (other STRING);
SELECT * FROM plain;
-- (nothing)
CREATE TABLE keyed (id BIGINT NOT NULL, dt STRING NOT NULL, v DOUBLE) PARTITIONED BY (dt) COMMENT 'by day' TBLPROPERTIES ('primary-key' = 'dt,id', 'bucket' = '2');
SHOW TBLPROPERTIES keyed ('bucket');
-- bucket, 2
SHOW TBLPROPERTIES keyed ('primary-key');
-- primary-key, dt,id
SHOW COLUMNS IN keyed;
-- id
-- dt
-- v
CREATE TABLE wrong (id INT) TBLPROPERTIES ('primary-key' = 'other', 'bucket' = '1');
-- ! other
CREATE TABLE wrong (id INT) PARTITIONED BY (other);
-- ! other
CREATE TABLE copied AS SELECT 1 AS id, 'a' AS name UNION ALL SELECT 2, 'b';
SELECT * FROM copied ORDER BY id;
-- 1, a
-- 2, b
CREATE TABLE copied_keyed PARTITIONED BY (dt) TBLPROPERTIES ('primary-key' = 'dt,id', 'bucket' = '1') AS SELECT 1 AS id, '2024-01-01' AS dt;
SELECT * FROM copied_keyed;
-- 1, 2024-01-01
SHOW TBLPROPERTIES copied_keyed ('primary-key');
-- primary-key, dt,id

ALTER TABLE plain SET TBLPROPERTIES ('snapshot.num-retained.min' = '7', 'comment' = 'changed');
SHOW TBLPROPERTIES plain ('snapshot.num-retained.min');
-- snapshot.num-retained.min, 7
ALTER TABLE plain UNSET TBLPROPERTIES ('snapshot.num-retained.min');
ALTER TABLE plain RENAME TO simple;
SHOW TABLES LIKE 's*';
-- ddl, simple, false
SELECT * FROM plain;
-- ! cannot be found
ALTER TABLE simple RENAME TO keyed;
-- ! already exists
DROP TABLE simple;
DROP TABLE simple;
-- ! cannot be found
DROP TABLE IF EXISTS simple;
SHOW TABLES;
-- ddl, copied, false
-- ddl, copied_keyed, false
-- ddl, keyed, false

CREATE TABLE odd_names (`a b` INT, `ünïcode` STRING, `select` INT);
INSERT INTO odd_names VALUES (1, 'x', 2);
SELECT `a b`, `ünïcode`, `select` FROM odd_names WHERE `a b` = 1;
-- 1, x, 2
DROP TABLE odd_names;

CREATE TABLE parts (id INT, dt STRING, hour INT) PARTITIONED BY (dt, hour);
INSERT INTO parts VALUES (1, 'a', 1), (2, 'a', 2), (3, 'b', 1);
SELECT * FROM parts WHERE hour = 1 AND dt = 'a';
-- 1, a, 1
DROP TABLE parts;
CREATE DATABASE ddl;
-- ! already exists
CREATE DATABASE IF NOT EXISTS ddl;

-- Paimon 0.9: an error of its own for a database that is not empty.
DROP DATABASE ddl;
-- ! SCHEMA_NOT_EMPTY
