/* A metastore takes letters, digits and underscores in the names of tables. */
CREATE TABLE `odd name` (id INT);
-- ! not a valid object name
SHOW TABLES;
-- (nothing)
