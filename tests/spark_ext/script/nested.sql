-- Nested columns that change, and defaults.
CREATE TABLE n (id INT, s STRUCT<a: INT, b: STRUCT<c: STRING>>, l ARRAY<STRUCT<x: INT>>, m MAP<STRING, STRUCT<y: INT>>);
INSERT INTO n VALUES (1, named_struct('a', 1, 'b', named_struct('c', 'deep')), array(named_struct('x', 1)), map('k', named_struct('y', 1)));
ALTER TABLE n ADD COLUMN s.d DOUBLE;
ALTER TABLE n ADD COLUMN s.b.e INT FIRST;
ALTER TABLE n ADD COLUMNS (l.element.z STRING, m.value.z STRING);
SELECT * FROM n;
-- 1, {1, {null, deep}, null}, [{1, null}], {k: {1, null}}
INSERT INTO n VALUES (2, named_struct('a', 2, 'b', named_struct('e', 5, 'c', 'x'), 'd', 2.5D), array(named_struct('x', 2, 'z', 'zz'), NULL), map('k', named_struct('y', 2, 'z', 'zz')));
SELECT id, s.d, s.b.e, l[0].z, m['k'].z FROM n ORDER BY id;
-- 1, null, null, null, null
-- 2, 2.5, 5, zz, zz
ALTER TABLE n RENAME COLUMN s.a TO renamed;
ALTER TABLE n ALTER COLUMN s.renamed TYPE BIGINT;
ALTER TABLE n ALTER COLUMN l.element.x TYPE BIGINT;
ALTER TABLE n ALTER COLUMN s.renamed COMMENT 'once a';
ALTER TABLE n DROP COLUMN s.b.c;
SELECT id, s, l FROM n ORDER BY id;
-- 1, {1, {null}, null}, [{1, null}]
-- 2, {2, {5}, 2.5}, [{2, zz}, null]
SELECT id FROM n WHERE s.renamed > 1;
-- 2
DESCRIBE n;
-- id, int, ...
-- s, struct<renamed:bigint,b:struct<e:int>,d:double>, ...
-- l, array<struct<x:bigint,z:string>>, ...
-- m, map<string,struct<y:int,z:string>>, ...
ALTER TABLE n ADD COLUMN nowhere.x INT;
-- ! nowhere
ALTER TABLE n DROP COLUMN s.nosuch;
-- ! nosuch
ALTER TABLE n RENAME COLUMN s.renamed TO d;
-- ! d
UPDATE n SET s.renamed = 20 WHERE id = 1;
SELECT s.renamed FROM n ORDER BY id;
-- 20
-- 2
SELECT id, size(l), map_keys(m) FROM n ORDER BY id;
-- 1, 1, [k]
-- 2, 2, [k]

CREATE TABLE d (id INT, v STRING DEFAULT 'none', n INT DEFAULT 7, w DATE DEFAULT DATE'2024-01-01');
INSERT INTO d (id) VALUES (1);
INSERT INTO d VALUES (2, DEFAULT, DEFAULT, NULL);
INSERT INTO d BY NAME SELECT 3 AS id, 'given' AS v;
SELECT * FROM d ORDER BY id;
-- 1, none, 7, 2024-01-01
-- 2, none, 7, 2024-01-01
-- 3, given, 7, 2024-01-01
ALTER TABLE d ALTER COLUMN v SET DEFAULT 'other';
INSERT INTO d (id) VALUES (4);
ALTER TABLE d ALTER COLUMN v DROP DEFAULT;
INSERT INTO d (id) VALUES (5);
SELECT id, v FROM d WHERE id > 3 ORDER BY id;
-- 4, other
-- 5, null
UPDATE d SET n = DEFAULT WHERE id = 5;
CREATE TABLE wrong (id INT, n INT DEFAULT 'text');
-- ! INVALID_DEFAULT_VALUE
CREATE TABLE wrong (id INT DEFAULT missing);
-- ! DEFAULT

CREATE TABLE widened (a TINYINT, b FLOAT, c DECIMAL(5, 2), d INT, e DATE, f VARCHAR(3));
INSERT INTO widened VALUES (1, 1.5, 9.99, 5, DATE'2024-01-01', 'abc');
ALTER TABLE widened ALTER COLUMN a TYPE INT;
ALTER TABLE widened ALTER COLUMN b TYPE DOUBLE;
ALTER TABLE widened ALTER COLUMN c TYPE DECIMAL(10, 2);
ALTER TABLE widened ALTER COLUMN d TYPE BIGINT;
ALTER TABLE widened ALTER COLUMN f TYPE STRING;
INSERT INTO widened VALUES (100000, 2.5, 12345678.90, 30000000000, NULL, 'longer than three');
SELECT a, b, c, d, f FROM widened ORDER BY a;
-- 1, 1.5, 9.99, 5, abc
-- 100000, 2.5, 12345678.90, 30000000000, longer than three
SELECT count(*) FROM widened WHERE d = 5 AND c < 10 AND b > 1;
-- 1
ALTER TABLE widened ALTER COLUMN d TYPE INT;
-- ! d
ALTER TABLE widened ALTER COLUMN a SET NOT NULL;
-- ! Cannot change nullable column to non-nullable
CREATE TABLE strict (id INT NOT NULL, v INT NOT NULL);
INSERT INTO strict VALUES (1, NULL);
-- ! ull
ALTER TABLE strict ALTER COLUMN v DROP NOT NULL;
INSERT INTO strict VALUES (1, NULL);
SELECT * FROM strict;
-- 1, null
