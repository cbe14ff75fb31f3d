"""Settings of a client's session, and privileges that are sent with tables: applied, ignored because harmless, or
refused.
"""

from typing import Any

import pytest

from interbed.thrift_idl.hive_metastore import ttypes
from tests.support.servers.metastore import MetastoreUnderTest, plain_client, table

DIRECT_SQL = "hive.metastore.try.direct.sql"
PROXY = "metastore.expression.proxy"
MSCK_PROXY = "org.apache.hadoop.hive.metastore.MsckPartitionExpressionProxy"
INCOMPATIBLE = "metastore.disallow.incompatible.col.type.changes"
WHITELIST = "hive.metastore.partition.name.whitelist.pattern"


def test_a_session_setting_is_visible_to_its_own_session_only(wire: Any, metastore: MetastoreUnderTest) -> None:
    before = wire.getMetaConf(PROXY)
    wire.setMetaConf(PROXY, MSCK_PROXY)
    wire.setMetaConf(DIRECT_SQL, "false")
    wire.set_ugi("ann", [])
    assert (wire.getMetaConf(PROXY), wire.getMetaConf(DIRECT_SQL)) == (MSCK_PROXY, "false")
    with plain_client(metastore.port) as other:
        assert (other.getMetaConf(PROXY), other.getMetaConf(DIRECT_SQL)) == (before, "true")
    wire.setMetaConf(PROXY, before)
    assert wire.getMetaConf(PROXY) == before


def test_settings_that_would_have_no_effect_are_refused(wire: Any) -> None:
    wire.setMetaConf(INCOMPATIBLE, "FALSE")
    for key, value in ((INCOMPATIBLE, "true"), (WHITELIST, "[a-z]*")):
        with pytest.raises(ttypes.MetaException, match="can't be changed for a session"):
            wire.setMetaConf(key, value)
    with pytest.raises(ttypes.MetaException, match=r"Invalid configuration key hive\.not\.known"):
        wire.setMetaConf("hive.not.known", "1")


def granted(name: str) -> dict[str, list[Any]]:
    return {name: [ttypes.PrivilegeGrantInfo(privilege="SELECT", createTime=0, grantor=name, grantOption=True)]}


def test_a_table_is_accepted_with_privileges_of_its_owner_only(wire: Any, database: str) -> None:
    for name, harmless in (
        ("a", None),
        ("b", ttypes.PrincipalPrivilegeSet()),
        ("c", ttypes.PrincipalPrivilegeSet(userPrivileges={"bob": []}, groupPrivileges={}, rolePrivileges={})),
        # As Trino sends them.
        ("d", ttypes.PrincipalPrivilegeSet(userPrivileges=granted("tester"), groupPrivileges={}, rolePrivileges={})),
    ):
        made = table(database, name)
        made.privileges = harmless
        wire.create_table(made)
    for who, meant in (
        ("the user bob", ttypes.PrincipalPrivilegeSet(userPrivileges=granted("bob"))),
        ("the group staff", ttypes.PrincipalPrivilegeSet(groupPrivileges=granted("staff"))),
        ("the role public", ttypes.PrincipalPrivilegeSet(rolePrivileges=granted("public"))),
    ):
        refused = table(database, "e")
        refused.privileges = meant
        with pytest.raises(ttypes.MetaException, match=f"{database}.e comes with privileges of {who}"):
            wire.create_table(refused)
        with pytest.raises(ttypes.MetaException, match="privileges are not kept"):
            wire.create_table_req(ttypes.CreateTableRequest(table=refused))
    assert wire.get_all_tables(database) == ["a", "b", "c", "d"]
