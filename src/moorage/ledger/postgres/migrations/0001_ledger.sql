-- oldest code that may run on this schema: 1

-- Every text is compared by code point (collate "C"), as in SQLite and Python: the order of names
-- and the range of a location must not depend on the locale of the database.

-- Facts: written by append only.

create table entry (                      -- the feed; its last row is the ledger position
    seq        bigint not null primary key,
    at_ms      bigint not null,
    access_seq bigint not null,
    draft      text   collate "C" not null unique,
    caller     text   collate "C" not null,
    api        text   collate "C" not null,
    request    text   collate "C" not null,
    body       bytea  not null
);

create table securable (
    id         text    collate "C" not null primary key,
    kind       text    collate "C" not null,
    shelf      text    collate "C" not null,
    parent     text    collate "C" not null,
    name       text    collate "C" not null,
    name_key   text    collate "C" not null,
    owner      text    collate "C" not null,
    revision   bigint  not null,
    created_at bigint  not null,
    created_by text    collate "C" not null,
    updated_at bigint  not null,
    updated_by text    collate "C" not null,
    dropped_at bigint,
    purge_at   bigint,
    purged     boolean not null default false,
    expires_at bigint,
    doc        bytea   not null
);

create unique index securable_name on securable (parent, shelf, name_key) where dropped_at is null;
create index securable_dropped on securable (parent, shelf, dropped_at) where dropped_at is not null;
create index securable_purge on securable (purge_at, id) where purge_at is not null;
create index securable_expiry on securable (expires_at, id) where expires_at is not null;

create table place (
    path      text collate "C" not null primary key,
    securable text collate "C" not null
);
create index place_holder on place (securable);

-- Updated thousands of times a second. Half-empty pages and no second index allow heap-only updates
-- on the same page, so that a long-lived snapshot does not make every append slower.
create table head (
    table_id     text   collate "C" not null,
    ref          text   collate "C" not null,
    version      bigint not null,
    timestamp_ms bigint not null,
    row_id_mark  bigint,
    floor        bigint not null default 0,
    primary key (table_id, ref)
) with (fillfactor = 50);

create table version (
    table_id     text   collate "C" not null,
    ref          text   collate "C" not null,
    version      bigint not null,
    seq          bigint not null,
    at_ms        bigint not null,
    timestamp_ms bigint not null,
    operation    text   collate "C" not null,
    file         text   collate "C" not null,
    size         bigint not null,
    digest       text   collate "C",
    target       text   collate "C",
    source       text   collate "C",
    details      bytea  not null,
    primary key (table_id, ref, version)
);

create table receipt (
    caller   text   collate "C" not null,
    key      text   collate "C" not null,
    print    text   collate "C" not null,
    seq      bigint,
    at_ms    bigint not null,
    outcome  bytea  not null,
    until_ms bigint not null,
    primary key (caller, key)
);
create index receipt_end on receipt (until_ms);

create table job (
    id         text   collate "C" not null primary key,
    kind       text   collate "C" not null,
    subject    text   collate "C",
    dedupe     text   collate "C",
    args       bytea  not null,
    attempts   bigint not null,
    state      text   collate "C" not null,  -- open, succeeded, failed, cancelled; the lease shows if it is running
    created_at bigint not null,
    run_at     bigint not null,
    result     bytea,
    error      text   collate "C",
    ended_at   bigint
);
create unique index job_dedupe on job (dedupe) where dedupe is not null and state = 'open';
create index job_open on job (run_at, id) where state = 'open';
create index job_subject on job (subject, id) where subject is not null;

-- Attachments: bytes that are not part of history.

create table document (
    table_id text collate "C" not null, ref text collate "C" not null, version bigint not null, bytes bytea not null,
    primary key (table_id, ref, version)
);

create table staged (
    table_id text collate "C" not null, ref text collate "C" not null, version bigint not null,
    at_ms bigint not null, bytes bytea,
    primary key (table_id, ref, version)
);
-- Not compressed: the bytes stay for a few seconds, and compressing 300 KB takes 3 ms under the lock.
alter table staged alter column bytes set storage external;

-- Notes: written without an entry. They only move forward, and losing one is always safe.

create table lease (
    job           text   collate "C" not null primary key,
    fence         text   collate "C" not null,
    worker        text   collate "C" not null,
    until_ms      bigint not null,
    attempt       bigint not null,
    not_before_ms bigint not null default 0,
    progress      bytea,
    error         text   collate "C"
);

create table published (
    table_id text collate "C" not null, ref text collate "C" not null, version bigint not null,
    claimed bigint not null default -1,      -- the client-published version
    primary key (table_id, ref)
);

create table report (                     -- a client's report on a commit or a scan
    table_id text collate "C" not null, kind text collate "C" not null, version bigint not null, at_ms bigint not null, body bytea not null,
    primary key (table_id, kind, version)
);

create table secret (
    name  text collate "C" not null primary key,
    value bytea not null
);
