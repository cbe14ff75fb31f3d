"""Random names and objects: mostly as clients send them, sometimes unusual."""

from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from interbed.thrift_idl.hive_metastore import ttypes
from tests.catalog.differential.servers import WAREHOUSE

ODD_NAMES = ["", " ", "a-b", "a.b", "a b", "ü", "1", "_", "a/b", "x'y", "a%20"]


LAZY_SIMPLE = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"


def one_of(often: list[Any], seldom: list[Any]) -> SearchStrategy[Any]:
    """Generate an element of the first list, and in about one of ten cases one of the second."""
    return st.integers(0, 9).flatmap(lambda n: st.sampled_from(seldom if n == 9 else often))


DATABASES = one_of(["d1", "d1", "d1", "d2"], ["D1", "default", "missing", " d1 ", *ODD_NAMES])
TABLES = one_of(["t1", "t1", "t1", "t2", "v1"], ["T1", "missing", " t1 ", "T" * 129, *ODD_NAMES])
KNOWN_TABLES = st.sampled_from(["t1", "t1", "t1", "t2", "v1"])
FUNCTIONS = one_of(["f1", "f2"], ["F1", "missing", *ODD_NAMES])
NEW_FUNCTIONS = one_of(["f1", "f2"], ODD_NAMES)
"""Names in lower case: Java stores other names as they are, and then does not find them (README.md)."""
PATTERNS = st.sampled_from(
    [
        *("*", "", "t*", "T1", "t1|v1", "t1|", "|", "t.", "t.*", ".*", ".", "*1", "t[12]", "d*", "d1|d2", "D*"),
        *("def*", "%", "t_", "(t1)", "t1 | v1", "d.", "f*", "f1|f2", "t?", "**", "t\\1", "^t1$", "tt*"),
    ]
)
TYPES = one_of(
    ["int", "string", "bigint"],
    ["decimal(10,2)", "array<struct<a:int,b:map<string,double>>>", "varchar(10)", "INT", "inty", "", "timestamp"],
)
COLUMN_NAMES = one_of(["a", "b", "c"], ["A", "x y", "ü", "a:b", "c" * 129, "d", "", "p"])
LOCATIONS = st.sampled_from(
    [None] * 12
    + [
        f"file:/{WAREHOUSE}/elsewhere/x",
        f"file:/{WAREHOUSE}/elsewhere/y",
        f"/{WAREHOUSE}/bare",
        f"file:///{WAREHOUSE}/slashes",
        f"file:/{WAREHOUSE}/trailing/",
        f"file:/{WAREHOUSE}/d1.db/t1",
        f"file:/{WAREHOUSE}/with space/é",
        "",
    ]
)
PARAMETERS = st.sampled_from(
    [{}, {}, {"k": "v"}, {"k": "w", "comment": "c"}, {"k": ""}, {"ü": "é✓"}, {"transient_lastDdlTime": "5"}, None]
)


@st.composite
def columns(draw: st.DrawFn, most: int = 3) -> list[ttypes.FieldSchema]:
    """Generate columns, mostly of different names."""
    names = draw(st.lists(COLUMN_NAMES, min_size=0, max_size=most, unique=draw(st.integers(0, 9)) < 9))
    return [
        ttypes.FieldSchema(name=name, type=draw(TYPES), comment=draw(st.sampled_from([None, None, "a comment", ""])))
        for name in names
    ]


@st.composite
def storage(draw: st.DrawFn) -> ttypes.StorageDescriptor | None:
    """Generate a storage descriptor, rarely None."""
    if draw(st.integers(0, 39)) == 0:
        return None
    serde = ttypes.SerDeInfo(
        name=draw(st.sampled_from([None, "n"])),
        serializationLib=draw(one_of([LAZY_SIMPLE], ["org.example.SerDe", None])),
        parameters=draw(PARAMETERS),
    )
    skew = ttypes.SkewedInfo(skewedColNames=[], skewedColValues=[], skewedColValueLocationMaps={})
    return ttypes.StorageDescriptor(
        cols=draw(columns()),
        location=draw(LOCATIONS),
        inputFormat=draw(st.sampled_from(["org.example.Input", None])),
        outputFormat=draw(st.sampled_from(["org.example.Output", None])),
        compressed=draw(st.sampled_from([False, True, None])),
        numBuckets=draw(st.sampled_from([0, -1, 4, None])),
        serdeInfo=draw(st.sampled_from([serde] * 29 + [None])),
        bucketCols=draw(st.sampled_from([[], ["a"], None])),
        sortCols=draw(st.sampled_from([[], [ttypes.Order(col="a", order=1)], None])),
        parameters=draw(PARAMETERS),
        skewedInfo=draw(st.sampled_from([None, None, skew])),
        storedAsSubDirectories=draw(st.sampled_from([None, False])),
    )


@st.composite
def tables(draw: st.DrawFn, database: SearchStrategy[str] = DATABASES, name: SearchStrategy[str] = TABLES) -> Any:
    """Generate a table or a view."""
    parameters = draw(PARAMETERS)
    table_type = draw(
        one_of(["MANAGED_TABLE"] * 4 + ["EXTERNAL_TABLE", "VIRTUAL_VIEW"], [None, "MATERIALIZED_VIEW", "ODD"])
    )
    external = draw(
        st.sampled_from([None, "TRUE"] if table_type == "EXTERNAL_TABLE" else [None] * 5 + ["TRUE", "false"])
    )
    if external is not None:
        parameters = {**(parameters or {}), "EXTERNAL": external}
    keys = draw(
        st.sampled_from(
            [[], [], [], [("p", "string")], [("p", "string"), ("q", "int")], [("z", "int")], [("P", "date")], None]
        )
    )
    is_view = table_type in ("VIRTUAL_VIEW", "MATERIALIZED_VIEW")
    return ttypes.Table(
        tableName=draw(name),
        dbName=draw(database),
        owner=draw(st.sampled_from(["me", None])),
        createTime=draw(st.sampled_from([0, 7, None])),
        lastAccessTime=draw(st.sampled_from([0, 8, None])),
        retention=draw(st.sampled_from([0, 2147483647, None])),
        sd=draw(storage()),
        partitionKeys=None if keys is None else [ttypes.FieldSchema(name=n, type=t) for n, t in keys],
        parameters=parameters,
        viewOriginalText="SELECT 1" if is_view else None,
        viewExpandedText="SELECT 1 AS a" if is_view else None,
        tableType=table_type,
        temporary=False,
    )


@st.composite
def databases(draw: st.DrawFn) -> ttypes.Database:
    """Generate a database with random fields."""
    return ttypes.Database(
        name=draw(DATABASES),
        description=draw(st.sampled_from([None, "about", ""])),
        locationUri=draw(LOCATIONS),
        parameters=draw(PARAMETERS),
        ownerName=draw(st.sampled_from([None, "me"])),
        ownerType=draw(st.sampled_from([None, 1, 2])),
    )


CONTEXTS = st.sampled_from(
    [
        None,
        {},
        {"CASCADE": "true"},
        {"DO_NOT_UPDATE_STATS": "true"},
        {"ifPurge": "TRUE"},
        {"expected_parameter_key": "k", "expected_parameter_value": "v"},
        {"expected_parameter_key": "k", "expected_parameter_value": "w"},
        {"expected_parameter_key": "absent", "expected_parameter_value": "v"},
        {"expected_parameter_key": "k"},
    ]
).map(lambda properties: ttypes.EnvironmentContext(properties=properties))
