-- oldest code that may run on this schema: 1

-- Facts: written by append only.

create table entry (                      -- the feed; its last row is the ledger position
    seq        integer primary key,
    at_ms      integer not null,
    access_seq integer not null,
    draft      text    not null unique,
    caller     text    not null,
    api        text    not null,
    request    text    not null,
    body       blob    not null
) strict;

create table securable (
    id         text    not null primary key,
    kind       text    not null,
    shelf      text    not null,
    parent     text    not null,
    name       text    not null,
    name_key   text    not null,
    owner      text    not null,
    revision   integer not null,
    created_at integer not null,
    created_by text    not null,
    updated_at integer not null,
    updated_by text    not null,
    dropped_at integer,
    purge_at   integer,
    purged     integer not null default 0,
    expires_at integer,
    doc        blob    not null
) strict;

create unique index securable_name on securable (parent, shelf, name_key) where dropped_at is null;
create index securable_dropped on securable (parent, shelf, dropped_at) where dropped_at is not null;
create index securable_purge on securable (purge_at, id) where purge_at is not null;
create index securable_expiry on securable (expires_at, id) where expires_at is not null;

create table place (
    path      text not null primary key,
    securable text not null
) strict, without rowid;
create index place_holder on place (securable);

create table head (
    table_id     text    not null,
    ref          text    not null,
    version      integer not null,
    timestamp_ms integer not null,
    row_id_mark  integer,
    floor        integer not null default 0,
    primary key (table_id, ref)
) strict, without rowid;

create table version (                    -- with rowid: the versions of one entry are stored together
    table_id     text    not null,
    ref          text    not null,
    version      integer not null,
    seq          integer not null,
    at_ms        integer not null,
    timestamp_ms integer not null,
    operation    text    not null,
    file         text    not null,
    size         integer not null,
    digest       text,
    target       text,
    source       text,
    details      blob    not null,
    primary key (table_id, ref, version)
) strict;

create table receipt (
    caller   text    not null,
    key      text    not null,
    print    text    not null,
    seq      integer,
    at_ms    integer not null,
    outcome  blob    not null,
    until_ms integer not null,
    primary key (caller, key)
) strict, without rowid;
create index receipt_end on receipt (until_ms);

create table job (
    id         text    not null primary key,
    kind       text    not null,
    subject    text,
    dedupe     text,
    args       blob    not null,
    attempts   integer not null,
    state      text    not null,          -- open, succeeded, failed, cancelled; the lease shows if it is running
    created_at integer not null,
    run_at     integer not null,
    result     blob,
    error      text,
    ended_at   integer
) strict, without rowid;
create unique index job_dedupe on job (dedupe) where dedupe is not null and state = 'open';
create index job_open on job (run_at, id) where state = 'open';
create index job_subject on job (subject, id) where subject is not null;

-- Attachments: bytes that are not part of history.

create table document (
    table_id text not null, ref text not null, version integer not null, bytes blob not null,
    primary key (table_id, ref, version)
) strict;

create table staged (
    table_id text not null, ref text not null, version integer not null, at_ms integer not null, bytes blob,
    primary key (table_id, ref, version)
) strict;

-- Notes: written without an entry. They only move forward, and losing one is always safe.

create table lease (
    job           text    not null primary key,
    fence         text    not null,
    worker        text    not null,
    until_ms      integer not null,
    attempt       integer not null,
    not_before_ms integer not null default 0,
    progress      blob,
    error         text
) strict, without rowid;

create table published (
    table_id text not null, ref text not null, version integer not null,
    claimed integer not null default -1,      -- the client-published version
    primary key (table_id, ref)
) strict, without rowid;

create table report (                     -- a client's report on a commit or a scan
    table_id text not null, kind text not null, version integer not null, at_ms integer not null, body blob not null,
    primary key (table_id, kind, version)
) strict;

create table secret (
    name  text not null primary key,
    value blob not null
) strict, without rowid;
