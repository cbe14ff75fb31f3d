/* Names that a metastore refuses. */
CREATE TABLE `odd name` (`a b` INT, `ünïcode` STRING, `select` INT);
INSERT INTO `odd name` VALUES (1, 'x', 2);
SELECT `a b`, `ünïcode`, `select` FROM `odd name` WHERE `a b` = 1;
-- 1, x, 2
DROP TABLE `odd name`;
