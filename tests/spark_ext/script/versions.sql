-- Tags, branches, rollback, incremental reads and procedures about versions.
CREATE TABLE t (id INT NOT NULL, v STRING) TBLPROPERTIES ('primary-key' = 'id', 'bucket' = '1', 'write-only' = 'true');
INSERT INTO t VALUES (1, 'a');
INSERT INTO t VALUES (2, 'b');
INSERT INTO t VALUES (1, 'A'), (3, 'c');
CALL sys.create_tag(table => 'versions.t', tag => 'one', snapshot => 1);
-- true
CALL sys.create_tag(table => 'versions.t', tag => 'last');
-- true
SELECT tag_name, snapshot_id FROM `t$tags` ORDER BY tag_name;
-- last, 3
-- one, 1
SELECT * FROM t VERSION AS OF 'one';
-- 1, a
SELECT * FROM t VERSION AS OF 'last' ORDER BY id;
-- 1, A
-- 2, b
-- 3, c
SELECT count(*) FROM t VERSION AS OF 'missing';
-- ! missing
ALTER TABLE t CREATE TAG two AS OF VERSION 2;
ALTER TABLE t CREATE TAG two;
-- ! There is a tag 'two'
ALTER TABLE t CREATE TAG IF NOT EXISTS two;
SHOW TAGS t;
-- last
-- one
-- two
SELECT count(*) FROM t VERSION AS OF 'two';
-- 2
ALTER TABLE t RENAME TAG two TO zwei;
ALTER TABLE t DELETE TAG zwei;
ALTER TABLE t DELETE TAG zwei;
-- ! zwei
SELECT * FROM paimon_incremental_query('t', '1', '2');
-- 2, b
SELECT * FROM paimon_incremental_query('versions.t', 1, 3) ORDER BY id;
-- 1, A
-- 2, b
-- 3, c
SELECT * FROM paimon_incremental_query('versions.t', 'one', 'last') ORDER BY id;
-- 1, A
-- 2, b
-- 3, c
CALL sys.create_branch(table => 'versions.t', branch => 'trial', tag => 'last');
-- true
INSERT INTO `t$branch_trial` VALUES (4, 'on the branch');
SELECT count(*) FROM `t$branch_trial`;
-- 4
SELECT count(*) FROM t;
-- 3
SELECT branch_name FROM `t$branches`;
-- trial
CALL sys.fast_forward(table => 'versions.t', branch => 'trial');
-- true
SELECT * FROM t WHERE id = 4;
-- 4, on the branch
CALL sys.delete_branch(table => 'versions.t', branch => 'trial');
-- true
CALL sys.rollback(table => 'versions.t', version => '3');
-- 4, 3
SELECT count(*) FROM t;
-- 3
INSERT INTO t VALUES (5, 'e');
CALL sys.rollback(table => 'versions.t', version => 'one');
-- 4, 1
SELECT * FROM t;
-- 1, a
CALL sys.delete_tag(table => 'versions.t', tag => 'one');
-- true
SELECT * FROM `t$tags`;
-- (nothing)
INSERT INTO t VALUES (6, 'f');
INSERT INTO t VALUES (7, 'g');
CALL sys.expire_snapshots(table => 'versions.t', retain_max => 1, retain_min => 1);
-- 2
SELECT snapshot_id FROM `t$snapshots`;
-- 3
SELECT * FROM t VERSION AS OF 1;
-- ! 1
SELECT id FROM t ORDER BY id;
-- 1
-- 6
-- 7
CALL sys.compact(table => 'versions.t');
-- true
SELECT commit_kind, total_record_count FROM `t$snapshots` ORDER BY snapshot_id;
-- APPEND, 3
-- COMPACT, 3
SELECT level, record_count FROM `t$files`;
-- 5, 3
CALL sys.reset_consumer(table => 'versions.t', consumerId => 'me', nextSnapshotId => 4);
-- true
SELECT * FROM `t$consumers`;
-- me, 4
CALL sys.remove_orphan_files(table => 'versions.t');
CALL sys.create_tag('versions.t');
-- ! tag
CALL sys.create_tag(table => 'versions.missing', tag => 'x');
-- ! missing
CALL sys.create_tag(table => 'versions.t', tag => 'x', colour => 'red');
-- ! colour
CALL sys.unheard_of('t');
-- ! unheard_of
CALL sys.rollback(table => 'versions.t', version => '77');
-- ! 77
CALL sys.delete_branch(table => 'versions.t', branch => 'nosuch');
-- ! nosuch
CALL sys.fast_forward(table => 'versions.t', branch => 'nosuch');
-- ! nosuch

CREATE TABLE days (n INT, dt STRING) PARTITIONED BY (dt);
INSERT INTO days VALUES (1, '2020-01-01'), (2, '2999-01-01');
CALL sys.expire_partitions(table => 'versions.days', expiration_time => '30 d', timestamp_formatter => 'yyyy-MM-dd');
-- dt=2020-01-01
SELECT * FROM days;
-- 2, 2999-01-01
CALL sys.mark_partition_done(table => 'versions.days', partitions => 'dt=2999-01-01');
-- true

CREATE TABLE daily (dt STRING, name STRING, amount BIGINT) PARTITIONED BY (dt);
CALL sys.create_branch(table => 'versions.daily', branch => 'live');
ALTER TABLE `daily$branch_live` SET TBLPROPERTIES ('primary-key' = 'dt,name', 'bucket' = '2', 'changelog-producer' = 'lookup');
ALTER TABLE daily SET TBLPROPERTIES ('scan.fallback-branch' = 'live');
INSERT INTO `daily$branch_live` VALUES ('25', 'apple', 4), ('25', 'peach', 10), ('26', 'cherry', 3), ('26', 'pear', 6);
SELECT count(*) FROM daily;
-- 4
INSERT INTO daily VALUES ('25', 'apple', 5), ('25', 'banana', 7);
INSERT INTO `daily$branch_live` VALUES ('26', 'pear', 8);
SELECT * FROM daily;
-- 25, apple, 5
-- 25, banana, 7
-- 26, cherry, 3
-- 26, pear, 8
SELECT count(*), max(amount) FROM daily;
-- 4, 8
DELETE FROM daily WHERE amount > 6;
SELECT name FROM daily;
-- apple
-- cherry
-- pear
ALTER TABLE daily UNSET TBLPROPERTIES ('scan.fallback-branch');
SELECT name FROM daily;
-- apple
