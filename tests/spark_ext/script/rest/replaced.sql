-- Tables that exist are not replaced: Paimon's REST interface replaces no schema together with its rows.
CREATE OR REPLACE TABLE chosen AS SELECT 1 AS id, 'a' AS name;
SELECT * FROM chosen;
-- 1, a
CREATE OR REPLACE TABLE chosen AS SELECT 2 AS id, 'b' AS name;
-- ! 'replaced.chosen' is not replaced
REPLACE TABLE chosen AS SELECT 5 AS five;
-- ! 'replaced.chosen' is not replaced
CREATE OR REPLACE TABLE chosen (id INT, v STRING);
-- ! 'replaced.chosen' is not replaced
REPLACE TABLE nosuch AS SELECT 1 AS one;
-- ! cannot be found
CREATE OR REPLACE TABLE failed AS SELECT CAST(raise_error('no') AS STRING) AS v FROM chosen;
-- ! no
SELECT * FROM failed;
-- ! cannot be found
INSERT OVERWRITE chosen SELECT 2 AS id, 'b' AS name;
SELECT * FROM chosen;
-- 2, b
CALL sys.repair('replaced.chosen');
-- ! nothing to repair
