"""Who may do what, as pure functions over an object's chain and the principals that a caller acts for.

A grant holds for its object and for everything below it. The owner of an object may do everything to it and to
everything below it. Except for BROWSE, each ancestor must admit the caller too: USE CATALOG on its catalog, USE SCHEMA
on its namespaces. There are no other rules, and what no rule allows is denied.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from moorage.core.callers import Caller, JobScope
from moorage.core.privileges import Grant, Privilege
from moorage.core.securables import Kind, Securable

_TABLE_GRANTS = frozenset({Grant.SELECT, Grant.MODIFY})
_VOLUME_GRANTS = frozenset({Grant.READ_VOLUME, Grant.WRITE_VOLUME})
_MODEL_GRANTS = frozenset({Grant.EXECUTE, Grant.CREATE_MODEL_VERSION})
_LOCATION_GRANTS = frozenset(
    {
        Grant.READ_FILES,
        Grant.WRITE_FILES,
        Grant.CREATE_EXTERNAL_TABLE,
        Grant.CREATE_EXTERNAL_VOLUME,
        Grant.CREATE_MANAGED_STORAGE,
    }
)
_ANY = frozenset({Grant.ALL_PRIVILEGES, Grant.MANAGE, Grant.BROWSE})

_OWN: dict[Kind, frozenset[Grant]] = {
    Kind.METASTORE: frozenset(
        {
            Grant.CREATE_CATALOG,
            Grant.CREATE_STORAGE_CREDENTIAL,
            Grant.CREATE_EXTERNAL_LOCATION,
            Grant.CREATE_SHARE,
            Grant.CREATE_RECIPIENT,
            *_LOCATION_GRANTS,
            Grant.READ_FEED,
            Grant.RUN_JOBS,
        }
    ),
    Kind.CATALOG: frozenset({Grant.USE_CATALOG, Grant.CREATE_SCHEMA}),
    Kind.NAMESPACE: frozenset(
        {
            Grant.USE_SCHEMA,
            Grant.CREATE_SCHEMA,
            Grant.CREATE_TABLE,
            Grant.CREATE_VOLUME,
            Grant.CREATE_FUNCTION,
            Grant.CREATE_MODEL,
        }
    ),
    Kind.TABLE: _TABLE_GRANTS,
    Kind.VIEW: _TABLE_GRANTS,
    Kind.VOLUME: _VOLUME_GRANTS,
    Kind.FUNCTION: frozenset({Grant.EXECUTE}),
    Kind.MODEL: _MODEL_GRANTS,
    Kind.MODEL_VERSION: _MODEL_GRANTS,
    Kind.PIPELINE: frozenset({Grant.EXECUTE, Grant.MODIFY}),
    Kind.CREDENTIAL: frozenset({Grant.CREATE_EXTERNAL_LOCATION}),
    Kind.EXTERNAL_LOCATION: _LOCATION_GRANTS,
    Kind.SHARE: frozenset({Grant.USE_SHARE}),
    Kind.RECIPIENT: frozenset({Grant.USE_RECIPIENT}),
}
"""The grants that are about an object of this kind. Only these are of use when they are inherited."""

_BELOW: dict[Kind, tuple[Kind, ...]] = {
    Kind.METASTORE: tuple(_OWN),
    Kind.CATALOG: (Kind.CATALOG, Kind.NAMESPACE, Kind.TABLE, Kind.VOLUME, Kind.FUNCTION, Kind.MODEL, Kind.PIPELINE),
    Kind.NAMESPACE: (Kind.NAMESPACE, Kind.TABLE, Kind.VOLUME, Kind.FUNCTION, Kind.MODEL, Kind.PIPELINE),
}

GRANTABLE: Final[dict[Kind, frozenset[Grant]]] = {
    kind: _ANY.union(*(_OWN[each] for each in _BELOW.get(kind, (kind,)))) for kind in _OWN
}
"""What can be granted on an object of this kind."""

_USE = {Kind.CATALOG: Grant.USE_CATALOG, Kind.NAMESPACE: Grant.USE_SCHEMA}

_CREATIONS: dict[Privilege, Grant] = {
    Privilege.CREATE_CATALOG: Grant.CREATE_CATALOG,
    Privilege.CREATE_SCHEMA: Grant.CREATE_SCHEMA,
    Privilege.CREATE_TABLE: Grant.CREATE_TABLE,
    Privilege.CREATE_VOLUME: Grant.CREATE_VOLUME,
    Privilege.CREATE_FUNCTION: Grant.CREATE_FUNCTION,
    Privilege.CREATE_MODEL: Grant.CREATE_MODEL,
    Privilege.CREATE_CREDENTIAL: Grant.CREATE_STORAGE_CREDENTIAL,
    Privilege.CREATE_EXTERNAL_LOCATION: Grant.CREATE_EXTERNAL_LOCATION,
    Privilege.CREATE_SHARE: Grant.CREATE_SHARE,
    Privilege.CREATE_RECIPIENT: Grant.CREATE_RECIPIENT,
}

_NEEDED: dict[tuple[Privilege, Kind], Grant] = {
    **{(privilege, kind): grant for privilege, grant in _CREATIONS.items() for kind in Kind},
    **{(privilege, kind): Grant.MANAGE for privilege in (Privilege.MANAGE, Privilege.INSPECT) for kind in Kind},
    (Privilege.READ, Kind.CATALOG): Grant.USE_CATALOG,
    (Privilege.READ, Kind.NAMESPACE): Grant.USE_SCHEMA,
    (Privilege.READ_TABLES, Kind.NAMESPACE): Grant.SELECT,
    (Privilege.READ, Kind.TABLE): Grant.SELECT,
    (Privilege.READ, Kind.VIEW): Grant.SELECT,
    (Privilege.READ, Kind.VOLUME): Grant.READ_VOLUME,
    (Privilege.READ, Kind.FUNCTION): Grant.EXECUTE,
    (Privilege.READ, Kind.MODEL): Grant.EXECUTE,
    (Privilege.READ, Kind.MODEL_VERSION): Grant.EXECUTE,
    (Privilege.READ, Kind.PIPELINE): Grant.EXECUTE,
    (Privilege.READ, Kind.SHARE): Grant.USE_SHARE,
    (Privilege.READ, Kind.RECIPIENT): Grant.USE_RECIPIENT,
    (Privilege.MODIFY, Kind.CATALOG): Grant.MANAGE,
    (Privilege.MODIFY, Kind.NAMESPACE): Grant.MANAGE,
    (Privilege.MODIFY, Kind.TABLE): Grant.MODIFY,
    (Privilege.MODIFY, Kind.VIEW): Grant.MODIFY,
    (Privilege.MODIFY, Kind.VOLUME): Grant.WRITE_VOLUME,
    (Privilege.MODIFY, Kind.FUNCTION): Grant.MANAGE,
    (Privilege.MODIFY, Kind.MODEL): Grant.CREATE_MODEL_VERSION,
    (Privilege.MODIFY, Kind.MODEL_VERSION): Grant.CREATE_MODEL_VERSION,
    (Privilege.MODIFY, Kind.PIPELINE): Grant.MODIFY,
    (Privilege.MODIFY, Kind.EXTERNAL_LOCATION): Grant.MANAGE,
    (Privilege.MODIFY, Kind.CREDENTIAL): Grant.MANAGE,
    (Privilege.MODIFY, Kind.SHARE): Grant.MANAGE,
    (Privilege.MODIFY, Kind.RECIPIENT): Grant.MANAGE,
    (Privilege.CREATE, Kind.MODEL): Grant.CREATE_MODEL_VERSION,
    **{
        (privilege, kind): grant
        for kind in (Kind.METASTORE, Kind.EXTERNAL_LOCATION)
        for privilege, grant in (
            (Privilege.READ_FILES, Grant.READ_FILES),
            (Privilege.WRITE_FILES, Grant.WRITE_FILES),
            (Privilege.CHOOSE_LOCATION, Grant.CREATE_EXTERNAL_TABLE),
            (Privilege.CHOOSE_VOLUME_LOCATION, Grant.CREATE_EXTERNAL_VOLUME),
            (Privilege.STORE_MANAGED, Grant.CREATE_MANAGED_STORAGE),
        )
    },
    (Privilege.FOLLOW, Kind.METASTORE): Grant.READ_FEED,
    (Privilege.START_JOBS, Kind.METASTORE): Grant.READ_FEED,
    (Privilege.START_JOBS, Kind.PIPELINE): Grant.EXECUTE,
    (Privilege.WORK, Kind.METASTORE): Grant.RUN_JOBS,
}
"""The grant that gives a privilege on an object of a kind. What is not listed is for owners only."""

_READS = frozenset(
    {
        Privilege.BROWSE,
        Privilege.READ,
        Privilege.READ_TABLES,
        Privilege.READ_FILES,
        Privilege.FOLLOW,
        Privilege.INSPECT,
    }
)
_OF_JOBS = frozenset({Privilege.BROWSE, Privilege.READ, Privilege.MODIFY})

Held = frozenset[str] | set[str]


def allows(caller: Caller, privilege: Privilege, chain: Sequence[Securable]) -> bool:
    """Whether the caller may do this to the last object of the chain. An empty chain is the metastore."""
    if caller.job is not None:
        return _opens(caller.job, privilege, chain)
    if caller.is_read_only and privilege not in _READS:
        return False
    return caller.is_admin or _is_granted(caller, privilege, chain)


def _is_granted(caller: Caller, privilege: Privilege, chain: Sequence[Securable]) -> bool:
    if not chain:
        return privilege is Privilege.BROWSE or _gives(caller.grants, _NEEDED.get((privilege, Kind.METASTORE)))
    held: set[str] = set(caller.grants)
    principals = caller.principals
    is_admitted = True
    last = chain[-1]
    for part in chain:
        if is_admitted and part.owner in principals:
            return True
        if part.grants:
            for principal in part.grants.keys() & principals:
                held.update(part.grants[principal])
        use = _USE.get(part.kind)
        if use is not None and (part is not last or privilege in _CREATIONS) and not _gives(held, use):
            is_admitted = False
    if privilege is Privilege.BROWSE:
        return not _ANY.isdisjoint(held) or (is_admitted and _concerns(held, last, principals))
    return is_admitted and _gives(held, _NEEDED.get((privilege, last.kind)))


def _opens(scope: JobScope, privilege: Privilege, chain: Sequence[Securable]) -> bool:
    """Whether a job token allows this: to read and write the table of the job, and to find it."""
    if not chain:
        return False
    if chain[-1].id == scope.table:
        return privilege in _OF_JOBS
    return chain[-1].id in scope.above and privilege in (Privilege.BROWSE, Privilege.READ)


def _gives(held: Held, grant: Grant | None) -> bool:
    if grant is None:
        return False
    return grant in held or (Grant.ALL_PRIVILEGES in held and grant is not Grant.MANAGE)


def _concerns(held: Held, last: Securable, principals: frozenset[str]) -> bool:
    """Whether one of these grants is about the object: granted on it, or of use for its kind."""
    return not _OWN.get(last.kind, _ANY).isdisjoint(held) or bool(last.grants.keys() & principals)


def knows_of(caller: Caller, chain: Sequence[Securable]) -> bool:
    """Whether the caller may learn that the last object exists, because it has a privilege on it or on its parent."""
    if caller.job is not None and chain:
        return chain[-1].id == caller.job.table or chain[-1].id in caller.job.above
    if caller.is_admin or not chain:
        return True
    return any(_has_any(caller, chain[:depth]) for depth in (len(chain), len(chain) - 1) if depth)


def _has_any(caller: Caller, chain: Sequence[Securable]) -> bool:
    last = chain[-1]
    held: set[str] = set(caller.grants)
    for part in chain:
        if part.owner in caller.principals:
            return True
        for principal in part.grants.keys() & caller.principals:
            held.update(part.grants[principal])
    return not _ANY.isdisjoint(held) or _concerns(held, last, caller.principals)


def missing_grant(caller: Caller, privilege: Privilege, chain: Sequence[Securable]) -> str:
    """What a refused caller would need, as a text for the error."""
    if caller.job is not None:
        return "another token; that of a job only reads and writes the table of the job"
    if caller.is_read_only and privilege not in _READS:
        return "a token that may also write; this one has the scope 'read'"
    held: set[str] = set(caller.grants)
    for n, part in enumerate(chain):
        for principal in part.grants.keys() & caller.principals:
            held.update(part.grants[principal])
        use = _USE.get(part.kind)
        if use and (n + 1 < len(chain) or privilege in _CREATIONS) and not _gives(held, use):
            return f"{use} on {part.kind} '{part.name}'"
    kind = chain[-1].kind if chain else Kind.METASTORE
    grant = Grant.BROWSE if privilege is Privilege.BROWSE else _NEEDED.get((privilege, kind))
    what = f"{kind} '{chain[-1].name}'" if chain else "the metastore"
    return f"{grant} on {what}" if grant is not None else f"to be the owner of {what}"


class Effective(msgspec.Struct, frozen=True):
    """A privilege that a principal has on an object, and the ancestor it comes from."""

    principal: str
    privilege: str
    origin: Securable
    origin_name: str
    is_own: bool


def effective(chain: Sequence[Securable]) -> Iterator[Effective]:
    """The grants that hold on the last object of a chain that begins with the metastore, with their origins."""
    kind = chain[-1].kind
    usable = GRANTABLE.get(kind, _ANY)
    for depth, part in enumerate(chain):
        name = ".".join(each.name for each in chain[1 : depth + 1]) or part.name
        for principal, privileges in part.grants.items():
            for privilege in privileges:
                if part is chain[-1] or privilege in usable:
                    yield Effective(principal, privilege, part, name, part is chain[-1])
