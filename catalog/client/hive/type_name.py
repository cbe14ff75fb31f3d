"""Names of Hive's types for Paimon's, as Paimon's Hive catalog registers columns."""

from interbed.storage.base.types.data_type import (
    ArrayType,
    AtomicType,
    DataType,
    MapType,
    MultisetType,
    RowType,
    TypeRoot,
)

_MAX_CHAR = 255
_MAX_VARCHAR = 65535

_PLAIN = {
    TypeRoot.BOOLEAN: "boolean",
    TypeRoot.TINYINT: "tinyint",
    TypeRoot.SMALLINT: "smallint",
    TypeRoot.INT: "int",
    TypeRoot.BIGINT: "bigint",
    TypeRoot.FLOAT: "float",
    TypeRoot.DOUBLE: "double",
    TypeRoot.BINARY: "binary",
    TypeRoot.VARBINARY: "binary",
    TypeRoot.DATE: "date",
    # Hive has no type for a time of day; Paimon's SerDe hands it out as text.
    TypeRoot.TIME: "string",
    TypeRoot.TIMESTAMP: "timestamp",
    TypeRoot.TIMESTAMP_LTZ: "timestamp with local time zone",
}


def hive_type_name(data_type: DataType) -> str:
    """The name by which Hive knows the type, such as `array<struct<a:int,b:varchar(10)>>`."""
    match data_type:
        case AtomicType(root=TypeRoot.DECIMAL):
            return f"decimal({data_type.precision},{data_type.scale})"
        case AtomicType(root=TypeRoot.CHAR, length=length):
            return f"char({length})" if (length or 1) <= _MAX_CHAR else "string"
        case AtomicType(root=TypeRoot.VARCHAR, length=length):
            return f"varchar({length})" if (length or 1) <= _MAX_VARCHAR else "string"
        case AtomicType(root=root):
            return _PLAIN[root]
        case ArrayType(element=element):
            return f"array<{hive_type_name(element)}>"
        case MapType(key=key, value=value):
            return f"map<{hive_type_name(key)},{hive_type_name(value)}>"
        case MultisetType(element=element):
            return f"map<{hive_type_name(element)},int>"
        case RowType(fields=fields):
            inner = ",".join(f"{f.name}:{hive_type_name(f.type)}" for f in fields)
            return f"struct<{inner}>"
        case _:
            raise TypeError(f"Hive has no name for {data_type}.")
