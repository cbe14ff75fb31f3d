"""Settings of a client of HDFS: options of a catalog, environment variables, Hadoop's configuration files.

As in Paimon an option `hadoop.<key>` gives Hadoop's `<key>`; `dfs.<key>`, `fs.<key>` and `hadoop.security.<key>` have
Hadoop's names. Options override the files core-site.xml and hdfs-site.xml of the first of these directories with one of
them: the options `hadoop-conf-dir` (which must exist) and `hive-conf-dir`, the environment's HADOOP_CONF_DIR,
HADOOP_HOME/etc/hadoop, HADOOP_HOME/conf.

Tickets of Kerberos come from the ticket cache of the process, or by Paimon's options
`security.kerberos.login.principal` and `security.kerberos.login.keytab` from a keytab. A process without either has
delegation tokens in the file that HADOOP_TOKEN_FILE_LOCATION names.
"""

import itertools
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from interbed.storage.base.errors import InvalidOptionError

CONF_DIRECTORIES = ("hadoop-conf-dir", "hive-conf-dir")
OPTIONS_BEGIN = ("hadoop.", "dfs.", "fs.")
LOGIN_PRINCIPAL = "security.kerberos.login.principal"
LOGIN_KEYTAB = "security.kerberos.login.keytab"
LOGIN_BY_CACHE = "security.kerberos.login.use-ticket-cache"
LOGIN_OPTIONS = (LOGIN_PRINCIPAL, LOGIN_KEYTAB, LOGIN_BY_CACHE)
VARIABLES = (
    *("HADOOP_CONF_DIR", "HADOOP_HOME", "HADOOP_USER_NAME", "HADOOP_PROXY_USER", "HADOOP_TOKEN_FILE_LOCATION"),
    *("KRB5CCNAME", "KRB5_CLIENT_KTNAME", "KRB5_CONFIG"),
)
"""Environment variables that a client depends on."""

FILES = ("core-site.xml", "hdfs-site.xml")
UMASK = "fs.permissions.umask-mode"
AUTHENTICATION = "hadoop.security.authentication"

_caches = itertools.count(1)

RETRY_SETTINGS = {
    "dfs.client.failover.max.attempts": "8",
    "dfs.client.failover.sleep.base.millis": "500",
    "dfs.client.failover.sleep.max.millis": "5000",
}
"""Retries of requests to name nodes where nothing else is configured: about 20 seconds. Hadoop's own three minutes are
too long for a mistyped port."""


def is_hdfs_option(key: str) -> bool:
    """Return whether an option of a catalog is one for HDFS."""
    return key in CONF_DIRECTORIES or key in LOGIN_OPTIONS or key.startswith(OPTIONS_BEGIN)


@dataclass(frozen=True, slots=True, kw_only=True)
class HdfsLogin:
    """The login of a client by Kerberos: its principal, and the keytab with its keys, None for the ticket cache.

    With a keytab the library fetches a ticket when a connection needs one, and new ones in time. They are in the memory
    of the process.
    """

    principal: str
    keytab: str | None

    @staticmethod
    def of(options: Mapping[str, str]) -> "HdfsLogin | None":
        """Return the login by options; None for any principal of the ticket cache. InvalidOptionError."""
        principal, keytab = options.get(LOGIN_PRINCIPAL), options.get(LOGIN_KEYTAB)
        if keytab:
            if not principal:
                raise InvalidOptionError(
                    f"Option '{LOGIN_KEYTAB}' needs '{LOGIN_PRINCIPAL}', the principal of the client in it."
                )
            try:
                with Path(keytab).open("rb"):
                    pass
            except OSError as error:
                raise InvalidOptionError(f"Option '{LOGIN_KEYTAB}' names a file that can't be read: {error}") from error
        elif options.get(LOGIN_BY_CACHE, "true").lower() == "false":
            raise InvalidOptionError(
                f"Option '{LOGIN_BY_CACHE}' is false; give the options '{LOGIN_KEYTAB}' and '{LOGIN_PRINCIPAL}'."
            )
        return HdfsLogin(principal=principal, keytab=keytab or None) if principal else None

    def arguments(self) -> dict[str, str]:
        """Return the arguments of a client of hdfs-native, with an empty ticket cache for a keytab."""
        if self.keytab is None:
            return {"kerberos_principal": self.principal}
        return {
            "kerberos_principal": self.principal,
            "kerberos_keytab": self.keytab,
            "kerberos_cache": f"MEMORY:interbed-hdfs-{os.getpid()}-{next(_caches)}",
        }


def client_settings(options: Mapping[str, str], conf_dir: str | None) -> dict[str, str]:
    """Return Hadoop's settings for a client, which override the files of `conf_dir`."""
    settings: dict[str, str] = {}
    for key, value in options.items():
        if key.startswith("hadoop."):
            settings[key.removeprefix("hadoop.")] = value
        if key.startswith(OPTIONS_BEGIN):
            settings[key] = value
    configured = _configured(conf_dir) | settings.keys()
    return {**{key: value for key, value in RETRY_SETTINGS.items() if key not in configured}, **settings}


def configuration_directory(options: Mapping[str, str]) -> str | None:
    """Return the directory of Hadoop's configuration; None without one. InvalidOptionError for one that is missing."""
    given = options.get("hadoop-conf-dir")
    if given is not None:
        if not os.path.isdir(given):
            raise InvalidOptionError(f"hadoop-conf-dir={given!r}: there is no such directory on this machine.")
        return given
    hive = options.get("hive-conf-dir")
    home = os.environ.get("HADOOP_HOME")
    places = [hive, os.environ.get("HADOOP_CONF_DIR"), *([f"{home}/etc/hadoop", f"{home}/conf"] if home else [])]
    for place in places:
        if place and any(os.path.isfile(os.path.join(place, name)) for name in FILES):
            return place
    return None


def umask_of(settings: Mapping[str, str], conf_dir: str | None) -> int:
    """Return the umask of new files and directories; InvalidOptionError if it is no octal number."""
    text = settings.get(UMASK) or _site(conf_dir).get(UMASK, "022")
    try:
        return int(text, 8)
    except ValueError:
        raise InvalidOptionError(f"{UMASK}={text!r} is not an octal number like 022.") from None


def _configured(conf_dir: str | None) -> set[str]:
    return set(_site(conf_dir))


def _site(conf_dir: str | None) -> dict[str, str]:
    """Return the properties of the files; a file that can't be read is left out, and the client reports its fault."""
    # By use: local tables have no XML.
    from xml.etree import ElementTree

    found: dict[str, str] = {}
    for name in FILES if conf_dir is not None else ():
        try:
            root = ElementTree.fromstring((Path(str(conf_dir)) / name).read_bytes())
        except (OSError, ElementTree.ParseError):
            continue
        for one in root.iter("property"):
            key, value = one.findtext("name"), one.findtext("value")
            if key is not None and value is not None:
                found[key.strip()] = value.strip()
    return found
