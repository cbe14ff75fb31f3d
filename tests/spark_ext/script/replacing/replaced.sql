-- Tables that are replaced together with their rows, which Paimon's REST interface does not offer.
CREATE TABLE base (id INT NOT NULL, name STRING, dt STRING NOT NULL) PARTITIONED BY (dt) TBLPROPERTIES ('primary-key' = 'dt,id', 'bucket' = '2');
INSERT INTO base VALUES (1, 'a', 'x'), (2, 'b', 'y'), (3, 'c', 'y');
CREATE TABLE chosen AS SELECT id, upper(name) AS name FROM base WHERE dt = 'y';
CREATE OR REPLACE TABLE chosen AS SELECT id, dt AS day FROM base;
SELECT * FROM chosen ORDER BY id;
-- 1, x
-- 2, y
-- 3, y
SELECT * FROM chosen VERSION AS OF 1 ORDER BY id;
-- 2, B
-- 3, C
REPLACE TABLE chosen AS SELECT 5 AS five;
SELECT * FROM chosen;
-- 5
CREATE OR REPLACE TABLE chosen (id INT, v STRING);
SELECT * FROM chosen;
-- (nothing)
REPLACE TABLE nosuch AS SELECT 1 AS one;
-- ! cannot be found
CREATE OR REPLACE TABLE chosen AS SELECT CAST(raise_error('no') AS STRING) AS v FROM base;
-- ! no
SELECT id, v FROM chosen;
-- (nothing)
