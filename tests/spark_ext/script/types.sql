-- All types, their literals and their edges, once written and read back.
CREATE TABLE numbers (k INT NOT NULL, t TINYINT, s SMALLINT, i INT, b BIGINT, f FLOAT, d DOUBLE) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1');
INSERT INTO numbers VALUES
  (1, -128Y, -32768S, -2147483648, -9223372036854775808L, 1.5F, 1.5D),
  (2, 127Y, 32767S, 2147483647, 9223372036854775807L, -0.25F, 1e308D),
  (3, 0Y, 0S, 0, 0L, 0F, -0.0D),
  (4, NULL, NULL, NULL, NULL, NULL, NULL);
SELECT * FROM numbers ORDER BY k;
-- 1, -128, -32768, -2147483648, -9223372036854775808, 1.5, 1.5
-- 2, 127, 32767, 2147483647, 9223372036854775807, -0.25, 1e+308
-- 3, 0, 0, 0, 0, 0.0, -0.0
-- 4, null, null, null, null, null, null
INSERT INTO numbers SELECT 5, NULL, NULL, NULL, NULL, CAST('NaN' AS FLOAT), CAST('Infinity' AS DOUBLE);
INSERT INTO numbers SELECT 6, NULL, NULL, NULL, NULL, CAST('-Infinity' AS FLOAT), CAST('NaN' AS DOUBLE);
SELECT k, f, d FROM numbers WHERE k >= 5 ORDER BY k;
-- 5, nan, inf
-- 6, -inf, nan
SELECT k FROM numbers WHERE f = CAST('NaN' AS FLOAT);
-- 5
SELECT k FROM numbers WHERE d > 1e300 ORDER BY k;
-- 2
-- 5
-- 6
SELECT k FROM numbers WHERE d = 0.0;
-- 3
SELECT k FROM numbers WHERE b > 9223372036854775806;
-- 2

-- Paimon 0.9: fails on filters of two columns of small integers.
SELECT k FROM numbers WHERE t < 0 OR s > 100 ORDER BY k;
-- 1
-- 2
SELECT max(t), min(s), sum(i), count(b), max(f) FROM numbers WHERE k < 5;
-- 127, -32768, -1, 3, 1.5
SELECT k FROM numbers WHERE i IS NULL ORDER BY k;
-- 4
-- 5
-- 6

-- Paimon 0.9: writes null for a number that is too large.
INSERT INTO numbers VALUES (7, 128, 0, 0, 0, 0, 0);
-- ! overflow
DESCRIBE numbers;
-- k, int, ...
-- t, tinyint, ...
-- s, smallint, ...
-- i, int, ...
-- b, bigint, ...
-- f, float, ...
-- d, double, ...

CREATE TABLE decimals (small DECIMAL(5, 2), middle DECIMAL(18, 0), large DECIMAL(38, 18), largest DECIMAL(38, 0));
INSERT INTO decimals VALUES
  (999.99, 999999999999999999, 99999999999999999999.999999999999999999, 99999999999999999999999999999999999999),
  (-999.99, -999999999999999999, -0.000000000000000001, -99999999999999999999999999999999999999),
  (0.01, 0, 1.5, 1), (NULL, NULL, NULL, NULL);
SELECT * FROM decimals ORDER BY small;
-- null, null, null, null
-- -999.99, -999999999999999999, -0.000000000000000001, -99999999999999999999999999999999999999
-- 0.01, 0, 1.500000000000000000, 1
-- 999.99, 999999999999999999, 99999999999999999999.999999999999999999, 99999999999999999999999999999999999999
SELECT count(*) FROM decimals WHERE small > 0 AND large > 1;
-- 2
SELECT sum(small), max(middle) FROM decimals;
-- 0.01, 999999999999999999
SELECT small FROM decimals WHERE largest = 1;
-- 0.01

-- Paimon 0.9: writes null for a number that is too large.
INSERT INTO decimals VALUES (1000.00, 0, 0, 0);
-- ! overflow

CREATE TABLE texts (k INT, s STRING, c CHAR(4), v VARCHAR(5), b BINARY);
INSERT INTO texts VALUES (1, '', 'ab', 'abcde', X''), (2, 'it\'s "quoted" \\ and\nlined', 'abcd', '', X'00FF10'), (3, 'Größe 日本語 😀', 'ü', '日本語', X'E697A5'), (4, NULL, NULL, NULL, NULL);
SELECT * FROM texts WHERE k <> 2 ORDER BY k;
-- 1, , ab  , abcde, X''
-- 3, Größe 日本語 😀, ü   , 日本語, X'e697a5'
-- 4, null, null, null, null
SELECT length(s), c, length(v), hex(b) FROM texts WHERE k = 2;
-- 25, abcd, 0, 00FF10
SELECT k FROM texts WHERE s LIKE 'Gr%😀';
-- 3
SELECT k FROM texts WHERE s = '';
-- 1
SELECT k FROM texts WHERE c = 'ab';
-- 1
SELECT k FROM texts WHERE b = X'00FF10';
-- 2
SELECT k FROM texts WHERE s IN ('', 'Größe 日本語 😀') ORDER BY k;
-- 1
-- 3
INSERT INTO texts VALUES (5, 's', 'abcde', 'v', X'00');
-- ! EXCEED
INSERT INTO texts VALUES (5, 's', 'c', 'abcdef', X'00');
-- ! EXCEED

CREATE TABLE times (k INT, d DATE, t TIMESTAMP, n TIMESTAMP_NTZ);
INSERT INTO times VALUES
  (1, DATE'1970-01-01', TIMESTAMP'1970-01-01 00:00:00', TIMESTAMP_NTZ'1970-01-01 00:00:00'),
  (2, DATE'0001-01-01', TIMESTAMP'0001-01-01 00:00:00', TIMESTAMP_NTZ'0001-01-01 00:00:00'),
  (3, DATE'9999-12-31', TIMESTAMP'9999-12-31 23:59:59.999999', TIMESTAMP_NTZ'9999-12-31 23:59:59.999999'),
  (4, DATE'2024-02-29', TIMESTAMP'2024-02-29 12:34:56.789012', TIMESTAMP_NTZ'2024-02-29 12:34:56.789012'),
  (5, NULL, NULL, NULL);

-- Paimon 0.9: moves dates before 1582 to the Julian calendar.
SELECT k, CAST(d AS STRING), CAST(t AS STRING), CAST(n AS STRING) FROM times ORDER BY k;
-- 1, 1970-01-01, 1970-01-01 00:00:00, 1970-01-01 00:00:00
-- 2, 0001-01-01, 0001-01-01 00:00:00, 0001-01-01 00:00:00
-- 3, 9999-12-31, 9999-12-31 23:59:59.999999, 9999-12-31 23:59:59.999999
-- 4, 2024-02-29, 2024-02-29 12:34:56.789012, 2024-02-29 12:34:56.789012
-- 5, null, null, null
SELECT k FROM times WHERE d > DATE'2000-01-01' AND t < TIMESTAMP'2025-01-01 00:00:00';
-- 4
SELECT k FROM times WHERE n = TIMESTAMP_NTZ'2024-02-29 12:34:56.789012';
-- 4
SELECT k FROM times WHERE t = TIMESTAMP'2024-02-29 13:34:56.789012+01:00';
-- 4
SELECT year(d), month(d), date_add(d, 1) FROM times WHERE k = 4;
-- 2024, 2, 2024-03-01

CREATE TABLE flags (k INT, b BOOLEAN);
INSERT INTO flags VALUES (1, true), (2, false), (3, NULL);
SELECT k FROM flags WHERE b;
-- 1
SELECT k FROM flags WHERE NOT b;
-- 2
SELECT k FROM flags WHERE b IS NULL;
-- 3
SELECT k, b <=> NULL FROM flags ORDER BY k;
-- 1, false
-- 2, false
-- 3, true

CREATE TABLE nested (k INT, a ARRAY<INT>, m MAP<STRING, DOUBLE>, s STRUCT<x: INT, y: ARRAY<STRING>>, d ARRAY<STRUCT<n: STRING, v: MAP<INT, DATE>>>);
INSERT INTO nested VALUES
  (1, array(1, NULL, 3), map('a', 1.5D), named_struct('x', 1, 'y', array('p', 'q')), array(named_struct('n', 'e', 'v', map(1, DATE'2024-01-01')))),
  (2, array(), map(), named_struct('x', NULL, 'y', NULL), array()),
  (3, NULL, NULL, NULL, NULL);

-- Paimon 0.9: takes a struct of nulls for null.
SELECT * FROM nested ORDER BY k;
-- 1, [1, null, 3], {a: 1.5}, {1, [p, q]}, [{e, {1: 2024-01-01}}]
-- 2, [], {}, {null, null}, []
-- 3, null, null, null, null
SELECT a[0], m['a'], s.x, s.y[1], d[0].n, d[0].v[1] FROM nested WHERE k = 1;
-- 1, 1.5, 1, q, e, 2024-01-01
SELECT k FROM nested WHERE s.x = 1;
-- 1

-- Paimon 0.9: takes a struct of nulls for null.
SELECT k FROM nested WHERE s IS NULL;
-- 3
SELECT k, explode(a) FROM nested WHERE k = 1;
-- 1, 1
-- 1, null
-- 1, 3
SELECT k, size(a), cardinality(m) FROM nested WHERE k < 3 ORDER BY k;
-- 1, 3, 1
-- 2, 0, 0
SELECT s.* FROM nested WHERE k = 1;
-- 1, [p, q]

CREATE TABLE intervals (i INTERVAL DAY TO SECOND);
-- ! nterval
CREATE TABLE nothing (n VOID);
-- ! oid
