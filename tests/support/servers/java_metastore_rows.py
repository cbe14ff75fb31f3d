"""Generator of very many tables and partitions in the Derby database of a Java metastore 4.0.1, by SQL.

A million partitions would take hours by calls. Calls create the first tables, `t_00000000` and so on, and the
partitions of the first day. SQL copies them; each copy has the ids of its original plus a multiple of a stride.
"""

from collections.abc import Iterator, Sequence

_STRIDE = 1_000_000
_AT_ONCE = 500
_OF_TABLES = (
    "APP.TBLS T JOIN APP.SDS S ON S.SD_ID = T.SD_ID JOIN APP.COPIES N ON N.N <= {copies} "
    "AND T.TBL_ID < {stride} AND T.TBL_NAME LIKE 't!_%' ESCAPE '!'"
)
_OF_PARTITIONS = "APP.PARTITIONS P JOIN APP.SDS S ON S.SD_ID = P.SD_ID JOIN APP.COPIES N ON P.PART_ID < {stride}"

_STORAGE = (
    "INSERT INTO APP.SERDES (SERDE_ID, DESCRIPTION, DESERIALIZER_CLASS, NAME, SERDE_TYPE, SLIB, SERIALIZER_CLASS) "
    "SELECT D.SERDE_ID + N.N * {stride}, D.DESCRIPTION, D.DESERIALIZER_CLASS, D.NAME, D.SERDE_TYPE, D.SLIB, "
    "D.SERIALIZER_CLASS FROM {patterns} JOIN APP.SERDES D ON D.SERDE_ID = S.SERDE_ID",
    "INSERT INTO APP.SERDE_PARAMS (SERDE_ID, PARAM_KEY, PARAM_VALUE) "
    "SELECT D.SERDE_ID + N.N * {stride}, D.PARAM_KEY, D.PARAM_VALUE "
    "FROM {patterns} JOIN APP.SERDE_PARAMS D ON D.SERDE_ID = S.SERDE_ID",
    "INSERT INTO APP.SDS (SD_ID, CD_ID, INPUT_FORMAT, IS_COMPRESSED, IS_STOREDASSUBDIRECTORIES, LOCATION, NUM_BUCKETS, "
    "OUTPUT_FORMAT, SERDE_ID) SELECT S.SD_ID + N.N * {stride}, {columns}, S.INPUT_FORMAT, S.IS_COMPRESSED, "
    "S.IS_STOREDASSUBDIRECTORIES, S.LOCATION, S.NUM_BUCKETS, S.OUTPUT_FORMAT, S.SERDE_ID + N.N * {stride} "
    "FROM {patterns}",
    "INSERT INTO APP.SD_PARAMS (SD_ID, PARAM_KEY, PARAM_VALUE) SELECT D.SD_ID + N.N * {stride}, D.PARAM_KEY, "
    "D.PARAM_VALUE FROM {patterns} JOIN APP.SD_PARAMS D ON D.SD_ID = S.SD_ID",
)
_TABLES = (
    "INSERT INTO APP.CDS (CD_ID) SELECT S.CD_ID + N.N * {stride} FROM {patterns}",
    "INSERT INTO APP.COLUMNS_V2 (CD_ID, COMMENT, COLUMN_NAME, TYPE_NAME, INTEGER_IDX) "
    "SELECT C.CD_ID + N.N * {stride}, C.COMMENT, C.COLUMN_NAME, C.TYPE_NAME, C.INTEGER_IDX "
    "FROM {patterns} JOIN APP.COLUMNS_V2 C ON C.CD_ID = S.CD_ID",
    *_STORAGE,
    "INSERT INTO APP.TBLS (TBL_ID, CREATE_TIME, DB_ID, LAST_ACCESS_TIME, OWNER, OWNER_TYPE, RETENTION, "
    "IS_REWRITE_ENABLED, SD_ID, TBL_NAME, TBL_TYPE, WRITE_ID) SELECT T.TBL_ID + N.N * {stride}, T.CREATE_TIME, "
    "T.DB_ID, T.LAST_ACCESS_TIME, T.OWNER, T.OWNER_TYPE, T.RETENTION, T.IS_REWRITE_ENABLED, "
    "T.SD_ID + N.N * {stride}, 't_' || SUBSTR(CHAR(100000000 + N.N * {seeds} + INTEGER(SUBSTR(T.TBL_NAME, 3))), 2, 8), "
    "T.TBL_TYPE, T.WRITE_ID FROM {patterns}",
    "INSERT INTO APP.TABLE_PARAMS (TBL_ID, PARAM_KEY, PARAM_VALUE) SELECT D.TBL_ID + N.N * {stride}, D.PARAM_KEY, "
    "D.PARAM_VALUE FROM {patterns} JOIN APP.TABLE_PARAMS D ON D.TBL_ID = T.TBL_ID",
)
_PARTITIONS = (
    *_STORAGE,
    "INSERT INTO APP.PARTITIONS (PART_ID, CREATE_TIME, LAST_ACCESS_TIME, PART_NAME, SD_ID, TBL_ID, WRITE_ID) "
    "SELECT P.PART_ID + N.N * {stride}, P.CREATE_TIME, P.LAST_ACCESS_TIME, 'dt=' || N.DAY || SUBSTR(P.PART_NAME, 14), "
    "P.SD_ID + N.N * {stride}, P.TBL_ID, P.WRITE_ID FROM {patterns}",
    "INSERT INTO APP.PARTITION_PARAMS (PART_ID, PARAM_KEY, PARAM_VALUE) SELECT D.PART_ID + N.N * {stride}, "
    "D.PARAM_KEY, D.PARAM_VALUE FROM {patterns} JOIN APP.PARTITION_PARAMS D ON D.PART_ID = P.PART_ID",
    "INSERT INTO APP.PARTITION_KEY_VALS (PART_ID, PART_KEY_VAL, INTEGER_IDX) SELECT D.PART_ID + N.N * {stride}, "
    "CASE WHEN D.INTEGER_IDX = 0 THEN N.DAY ELSE D.PART_KEY_VAL END, D.INTEGER_IDX "
    "FROM {patterns} JOIN APP.PARTITION_KEY_VALS D ON D.PART_ID = P.PART_ID",
)


def multiplied(*, tables: int, seeds: int, days: Sequence[str]) -> Iterator[str]:
    """Yield statements that grow `seeds` tables to `tables`, and copy the partitions of the first day to each day."""
    yield "CREATE TABLE APP.COPIES (N BIGINT PRIMARY KEY, DAY CHAR(10))"
    copies = list(enumerate(days))[1:]
    for start in range(0, len(copies), _AT_ONCE):
        rows = ", ".join(f"({number}, '{day}')" for number, day in copies[start : start + _AT_ONCE])
        yield f"INSERT INTO APP.COPIES VALUES {rows}"
    common = {"stride": _STRIDE, "seeds": seeds}
    of_tables = _OF_TABLES.format(copies=tables // seeds - 1, **common)
    for statement in _TABLES:
        yield statement.format(patterns=of_tables, columns=f"S.CD_ID + N.N * {_STRIDE}", **common)
    # The partitions of a day share their columns with those of the first.
    for statement in _PARTITIONS:
        yield statement.format(patterns=_OF_PARTITIONS.format(**common), columns="S.CD_ID", **common)
    yield "DROP TABLE APP.COPIES"
    yield f"UPDATE APP.SEQUENCE_TABLE SET NEXT_VAL = NEXT_VAL + {(len(days) + 1) * _STRIDE}"
