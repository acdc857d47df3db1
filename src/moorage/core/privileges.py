"""What a request needs (`Privilege`), and what a principal can be granted for it (`Grant`).

Use cases ask for a privilege. `moorage.core.permissions` decides which grants give it.
"""

from __future__ import annotations

from enum import StrEnum

from moorage.core.securables import Kind


class Privilege(StrEnum):
    BROWSE = "browse"
    """See the object and its description."""
    READ = "read"
    """Read its data."""
    READ_TABLES = "read all tables of"
    """Read the data of every table in it, also of those to come."""
    CREATE = "create"
    """Create children of any kind in it."""
    CREATE_CATALOG = "create catalogs"
    CREATE_SCHEMA = "create schemas"
    CREATE_TABLE = "create tables"
    CREATE_VOLUME = "create volumes"
    CREATE_FUNCTION = "create functions"
    CREATE_MODEL = "create models"
    CREATE_SHARE = "create shares"
    """Create shares, in the metastore."""
    CREATE_RECIPIENT = "create recipients"
    """Create recipients, in the metastore."""
    CREATE_CREDENTIAL = "create storage credentials"
    CREATE_EXTERNAL_LOCATION = "create external locations"
    """With a credential."""
    CHOOSE_LOCATION = "choose the location of files"
    """Create tables and volumes at locations that the catalog did not assign, where files may exist already."""
    CHOOSE_VOLUME_LOCATION = "choose the location of volumes"
    STORE_MANAGED = "store managed objects"
    """Use a folder as the storage root of a catalog or schema."""
    MODIFY = "modify"
    """Change its description or commit to it."""
    INSPECT = "inspect"
    """Read what only those who manage it may see: its grants, its audit, its principals, what was dropped in it."""
    MANAGE = "manage"
    """Rename, drop or undrop it, or change its owner or its grants."""
    READ_FILES = "read files of"
    WRITE_FILES = "write files of"
    """Read and write files of a folder in which no object is."""
    FOLLOW = "follow"
    """Read the feed of the whole metastore."""
    START_JOBS = "start jobs of"
    """Have workers run it. The caller needs no privilege to change what they change, but its token must not be one for
    reading only."""
    WORK = "work"
    """Lease jobs and report their results."""


_CREATION_OF = {
    Kind.CATALOG: Privilege.CREATE_CATALOG,
    Kind.NAMESPACE: Privilege.CREATE_SCHEMA,
    Kind.TABLE: Privilege.CREATE_TABLE,
    Kind.VIEW: Privilege.CREATE_TABLE,
    Kind.STAGING_TABLE: Privilege.CREATE_TABLE,
    Kind.VOLUME: Privilege.CREATE_VOLUME,
    Kind.FUNCTION: Privilege.CREATE_FUNCTION,
    Kind.MODEL: Privilege.CREATE_MODEL,
    Kind.PIPELINE: Privilege.CREATE_TABLE,
    Kind.CREDENTIAL: Privilege.CREATE_CREDENTIAL,
    Kind.EXTERNAL_LOCATION: Privilege.CREATE_EXTERNAL_LOCATION,
    Kind.SHARE: Privilege.CREATE_SHARE,
    Kind.RECIPIENT: Privilege.CREATE_RECIPIENT,
}


def creation_of(kind: Kind) -> Privilege:
    """The privilege that is needed on the parent of a new object."""
    return _CREATION_OF.get(kind, Privilege.CREATE)


class Grant(StrEnum):
    """The privileges of Unity Catalog by the names that its clients send, and two of our own."""

    ALL_PRIVILEGES = "ALL PRIVILEGES"
    """Every privilege but MANAGE."""
    MANAGE = "MANAGE"
    BROWSE = "BROWSE"
    """See an object and all that is below it, without USE CATALOG and USE SCHEMA."""
    USE_CATALOG = "USE CATALOG"
    USE_SCHEMA = "USE SCHEMA"
    SELECT = "SELECT"
    MODIFY = "MODIFY"
    READ_VOLUME = "READ VOLUME"
    WRITE_VOLUME = "WRITE VOLUME"
    EXECUTE = "EXECUTE"
    CREATE_CATALOG = "CREATE CATALOG"
    CREATE_SCHEMA = "CREATE SCHEMA"
    CREATE_TABLE = "CREATE TABLE"
    CREATE_VOLUME = "CREATE VOLUME"
    CREATE_FUNCTION = "CREATE FUNCTION"
    CREATE_MODEL = "CREATE MODEL"
    CREATE_MODEL_VERSION = "CREATE MODEL VERSION"
    CREATE_EXTERNAL_TABLE = "CREATE EXTERNAL TABLE"
    """Create tables and volumes at locations of the caller's choice, below those that the server may use."""
    CREATE_EXTERNAL_VOLUME = "CREATE EXTERNAL VOLUME"
    CREATE_MANAGED_STORAGE = "CREATE MANAGED STORAGE"
    CREATE_STORAGE_CREDENTIAL = "CREATE STORAGE CREDENTIAL"
    CREATE_EXTERNAL_LOCATION = "CREATE EXTERNAL LOCATION"
    CREATE_SHARE = "CREATE SHARE"
    CREATE_RECIPIENT = "CREATE RECIPIENT"
    USE_SHARE = "USE SHARE"
    USE_RECIPIENT = "USE RECIPIENT"
    READ_FILES = "READ FILES"
    WRITE_FILES = "WRITE FILES"
    READ_FEED = "READ FEED"
    """Read every entry of the feed."""
    RUN_JOBS = "RUN JOBS"
    """Lease jobs of any table and report their results: for workers."""
