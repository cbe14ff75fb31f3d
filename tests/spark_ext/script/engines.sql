-- Merge engines, changelogs and row kinds.
CREATE TABLE agg (k INT NOT NULL, s INT, mx INT, mn INT, p INT, l STRING, f STRING, b BOOLEAN, o BOOLEAN, d DECIMAL(10, 2))
  TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1', 'merge-engine' = 'aggregation', 'fields.s.aggregate-function' = 'sum',
  'fields.mx.aggregate-function' = 'max', 'fields.mn.aggregate-function' = 'min', 'fields.p.aggregate-function' = 'product',
  'fields.l.aggregate-function' = 'listagg', 'fields.f.aggregate-function' = 'first_value',
  'fields.b.aggregate-function' = 'bool_and', 'fields.o.aggregate-function' = 'bool_or', 'fields.d.aggregate-function' = 'last_value');
INSERT INTO agg VALUES (1, 1, 1, 1, 2, 'x', 'first', true, false, 1.50), (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
INSERT INTO agg VALUES (1, 2, 5, -5, 3, 'y', 'second', false, true, NULL), (2, 7, 7, 7, 7, 'z', 'one', true, true, 2.00);
INSERT INTO agg VALUES (1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 9.00);
SELECT * FROM agg ORDER BY k;
-- 1, 3, 5, -5, 6, x,y, first, false, true, 9.00
-- 2, 7, 7, 7, 7, z, null, true, true, 2.00
SELECT k FROM agg WHERE s = 3;
-- 1
CREATE TABLE collected (k INT NOT NULL, a ARRAY<INT>, m MAP<STRING, INT>) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1',
  'merge-engine' = 'aggregation', 'fields.a.aggregate-function' = 'collect', 'fields.m.aggregate-function' = 'merge_map');
INSERT INTO collected VALUES (1, array(1, 2), map('a', 1));
INSERT INTO collected VALUES (1, array(3), map('a', 2, 'b', 3));
SELECT a, m['a'], m['b'] FROM collected;
-- [1, 2, 3], 2, 3

CREATE TABLE grouped (k INT NOT NULL, a INT, ga INT, b STRING, gb INT) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1',
  'merge-engine' = 'partial-update', 'fields.ga.sequence-group' = 'a', 'fields.gb.sequence-group' = 'b');
INSERT INTO grouped VALUES (1, 10, 2, 'x', 1);
INSERT INTO grouped VALUES (1, 99, 1, 'y', 2);
INSERT INTO grouped VALUES (1, NULL, 3, NULL, NULL);
SELECT * FROM grouped;
-- 1, null, 3, y, 2
CREATE TABLE counted (k INT NOT NULL, total INT, g INT, name STRING) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1',
  'merge-engine' = 'partial-update', 'fields.g.sequence-group' = 'total', 'fields.total.aggregate-function' = 'sum');
INSERT INTO counted VALUES (1, 10, 1, 'a');
INSERT INTO counted VALUES (1, 5, 2, NULL);
SELECT * FROM counted;
-- 1, 15, 2, a

CREATE TABLE changed (k INT NOT NULL, v INT) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1', 'changelog-producer' = 'input');
INSERT INTO changed VALUES (1, 1), (2, 2);
INSERT INTO changed VALUES (1, 10);
SELECT rowkind, k, v FROM `changed$audit_log` ORDER BY k;
-- +I, 1, 10
-- +I, 2, 2
SELECT * FROM changed ORDER BY k;
-- 1, 10
-- 2, 2
CREATE TABLE looked (k INT NOT NULL, v INT) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1', 'changelog-producer' = 'lookup');
INSERT INTO looked VALUES (1, 1);
INSERT INTO looked VALUES (1, 2), (3, 3);
SELECT * FROM looked ORDER BY k;
-- 1, 2
-- 3, 3
SELECT commit_kind, changelog_record_count FROM `looked$snapshots` ORDER BY snapshot_id;
-- APPEND, null
-- COMPACT, 1
-- APPEND, null
-- COMPACT, 3

CREATE TABLE kinds (k INT NOT NULL, v STRING, kind STRING) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1', 'rowkind.field' = 'kind');
INSERT INTO kinds VALUES (1, 'a', '+I'), (2, 'b', '+I');
INSERT INTO kinds VALUES (1, 'a', '-D'), (2, 'B', '+U');
SELECT k, v FROM kinds;
-- 2, B
CREATE TABLE ignored (k INT NOT NULL, v STRING, kind STRING) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1', 'rowkind.field' = 'kind', 'ignore-delete' = 'true');
INSERT INTO ignored VALUES (1, 'a', '+I');
INSERT INTO ignored VALUES (1, 'a', '-D');
SELECT k, v FROM ignored;
-- 1, a
CREATE TABLE ordered (k INT NOT NULL, v STRING, a INT, b INT) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1', 'sequence.field' = 'a,b');
INSERT INTO ordered VALUES (1, 'x', 2, 5), (1, 'y', 2, 9), (1, 'z', 1, 100);
SELECT v FROM ordered;
-- y
CREATE TABLE reversed (k INT NOT NULL, v STRING, a INT) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1', 'sequence.field' = 'a', 'sequence.field.sort-order' = 'descending');
INSERT INTO reversed VALUES (1, 'late', 2), (1, 'early', 1);
SELECT v FROM reversed;
-- early

CREATE TABLE crossing (id INT NOT NULL, dt STRING, v INT) PARTITIONED BY (dt) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '-1');
INSERT INTO crossing VALUES (1, 'x', 1), (2, 'x', 2);
INSERT INTO crossing VALUES (1, 'y', 10);
SELECT * FROM crossing ORDER BY id;
-- 1, y, 10
-- 2, x, 2

CREATE TABLE firsts (k INT NOT NULL, v STRING) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1', 'merge-engine' = 'first-row');
INSERT INTO firsts VALUES (1, 'first'), (1, 'second');
INSERT INTO firsts VALUES (1, 'third'), (2, 'only');
SELECT * FROM firsts ORDER BY k;
-- 1, first
-- 2, only
SELECT key, value FROM `agg$options` WHERE key LIKE 'fields.s.%';
-- fields.s.aggregate-function, sum
SELECT field_name, field_type, function FROM `agg$aggregation_fields` WHERE field_name IN ('k', 's');
-- k, INT NOT NULL, []
-- s, INT, [sum]
CREATE TABLE wrong (k INT NOT NULL, v INT) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1', 'merge-engine' = 'aggregation', 'fields.v.aggregate-function' = 'median');
-- ! median
CREATE TABLE wrong (k INT NOT NULL, v INT) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1', 'sequence.field' = 'nosuch');
-- ! nosuch
CREATE TABLE wrong (k INT NOT NULL, v INT) TBLPROPERTIES ('primary-key' = 'k', 'bucket' = '1', 'changelog-producer' = 'magic');
-- ! magic
CREATE TABLE wrong (k INT, v INT) TBLPROPERTIES ('bucket' = '1');
-- ! bucket-key
