-- oldest code that may run on this schema: 1

-- Function names include a version, so that two releases can share one database.

-- The ledger's time. It never runs backwards and does not depend on the clocks of the servers.
-- In tests, `given` replaces the database's clock.
create function now_v1(given bigint) returns bigint language sql volatile as $$
    select greatest(
        (select e.at_ms from entry e order by e.seq desc limit 1),
        coalesce(given, (extract(epoch from clock_timestamp()) * 1000)::bigint)
    )
$$;

-- The parts of a batch of drafts. `i` is the number of the draft in the batch, from 1. `nth` is the index
-- of an expectation in its draft, so that the first of several failed ones can be reported.

create type draft_v1 as (i int, id text, caller text, api text, request text, body bytea, makes_history boolean);
create type claim_v1 as (i int, caller text, key text, print text, outcome bytea, lifetime_ms bigint);

create type head_is_v1 as (i int, nth int, table_id text, ref text, version bigint);
create type revision_is_v1 as (i int, nth int, id text, revision bigint);
create type object_is_v1 as (i int, nth int, id text);                      -- live or empty
create type name_free_v1 as (i int, nth int, parent text, shelf text, key text);
create type place_free_v1 as (i int, nth int, above text[], first text, past text, by text);
create type access_is_v1 as (i int, nth int, seq bigint);
create type job_held_v1 as (i int, nth int, job text, fence text);
create type job_free_v1 as (i int, nth int, dedupe text);
create type floor_v1 as (i int, nth int, table_id text, ref text, version bigint);

create type object_v1 as (i int, id text);
create type place_v1 as (i int, path text, id text);
-- The combined changes of one draft to one object. Null keeps the stored value. `fate` is live or dropped.
create type securable_v1 as (
    i int, id text, kind text, shelf text, parent text, name text, name_key text, owner text, doc bytea,
    lifetime_ms bigint, grows int, by text, fate text, hold_ms bigint, purged boolean
);
-- `newest`: the draft's last commit to this line. It has the new row id high-water mark and floor of the line.
create type commit_v1 as (
    i int, table_id text, ref text, version bigint, timestamp_ms bigint, operation text, file text, size bigint,
    digest text, target text, source text, details bytea, newest boolean, row_id_mark bigint, floor bigint
);
create type line_v1 as (i int, table_id text, ref text);
create type span_v1 as (i int, table_id text, ref text, first bigint, last bigint);
create type bytes_v1 as (i int, table_id text, ref text, version bigint, bytes bytea);   -- staged, or a document
create type finish_v1 as (i int, id text, state text, result bytea, error text);
create type job_v1 as (
    i int, id text, kind text, subject text, dedupe text, args bytea, attempts bigint, delay_ms bigint
);

-- Results.
create type stale_v1 as (i int, nth int, actual text);
create type replay_v1 as (i int, seq bigint, at_ms bigint, print text, outcome bytea);

-- Appends a batch of independent drafts (moorage.ledger.batch ensures this). Each draft is checked
-- against the state before the batch and fails on its own.
--
-- seqs[i] > 0: the draft is history with this number. -1: the draft makes no entry, and its receipt is
-- stored. 0: nothing was written, and `stale` or `replays` has the reason.
--
-- A part whose array is null is skipped, because starting a statement costs more than processing a row.
create function append_v1(
    given_ms bigint, drafts draft_v1[], again boolean, access_by int, claims claim_v1[],
    head_is head_is_v1[], live object_is_v1[], revision_is revision_is_v1[], is_empty object_is_v1[],
    name_free name_free_v1[], releases object_v1[], place_free place_free_v1[], access_is access_is_v1[],
    job_held job_held_v1[], job_free job_free_v1[], floor_at_most floor_v1[], undropped object_is_v1[],
    erased object_v1[], parked object_v1[], changed securable_v1[], created securable_v1[], places place_v1[],
    ended line_v1[], raised floor_v1[], commits commit_v1[], to_publish bytes_v1[], documents bytes_v1[],
    dropped span_v1[], finished finish_v1[], jobs job_v1[],
    out now_ms bigint, out seqs bigint[], out stale stale_v1[], out replays replay_v1[]
) language plpgsql volatile as $$
declare
    last_seq    bigint;
    last_ms     bigint;
    last_access bigint;
    dead        text[];
    access_from bigint;
begin
    -- The function is volatile and the lock is a separate statement. A statement that both locks and
    -- checks would use a snapshot older than the lock, and two servers could use one idempotency key.
    perform pg_advisory_xact_lock(7667201);

    select e.seq, e.at_ms, e.access_seq into last_seq, last_ms, last_access from entry e order by e.seq desc limit 1;
    last_seq := coalesce(last_seq, 0);
    last_access := coalesce(last_access, 0);
    now_ms := greatest(last_ms, coalesce(given_ms, (extract(epoch from clock_timestamp()) * 1000)::bigint));

    -- Idempotency keys come before expectations: a retry must get the original response, not a conflict.

    replays := '{}';
    if claims is not null then
        replays := array(
            select row(c.i, r.seq, r.at_ms, r.print, r.outcome)::replay_v1
            from unnest(claims) c
            join receipt r on r.caller = c.caller and r.key = c.key and r.until_ms >= now_ms
        );
    end if;

    -- Expectations, kind by kind. Where there is a partial index, a subquery with a limit fetches the one row: for a
    -- plain join the planner reads the whole index until the table is analysed.

    stale := '{}';
    if head_is is not null or live is not null then
        -- An object is live if the walk up from it through undropped rows reaches the root. Each parent is
        -- walked once, even if many tables of the batch share it. `union` terminates cycles.
        with recursive
            asked (id) as (
                select h.table_id from unnest(head_is) h
                union
                select l.id from unnest(live) l
            ),
            own as (
                select a.id, s.parent from asked a
                left join lateral (select t.parent, t.dropped_at from securable t where t.id = a.id limit 1) s
                on s.dropped_at is null
            ),
            up (start, id) as (
                select distinct o.parent, o.parent from own o where o.parent is not null
                union
                select u.start, s.parent from up u
                join lateral (select t.parent, t.dropped_at from securable t where t.id = u.id limit 1) s
                on s.dropped_at is null
            ),
            reached as materialized (select u.start from up u where u.id = '')
        select array_agg(o.id) into dead
        from own o where o.parent is null or not exists (select from reached r where r.start = o.parent);
        dead := coalesce(dead, '{}');
    end if;
    if head_is is not null then
        stale := stale || array(
            select row(x.i, x.nth, h.version)::stale_v1
            from unnest(head_is) x left join head h on h.table_id = x.table_id and h.ref = x.ref
            where h.version is distinct from x.version or x.table_id = any (dead)
        );
    end if;
    if live is not null then
        stale := stale || array(
            select row(x.i, x.nth, null)::stale_v1 from unnest(live) x where x.id = any (dead)
        );
    end if;
    if revision_is is not null then
        stale := stale || array(
            select row(x.i, x.nth, s.revision)::stale_v1
            from unnest(revision_is) x left join securable s on s.id = x.id
            where s.revision is distinct from x.revision
        );
    end if;
    if is_empty is not null then
        stale := stale || array(
            select row(x.i, x.nth, child.id)::stale_v1
            from unnest(is_empty) x
            cross join lateral (
                select s.id from securable s
                where s.parent = x.id and s.dropped_at is null and s.shelf <> 'stage' limit 1
            ) child
        );
    end if;
    if name_free is not null then
        stale := stale || array(
            select row(x.i, x.nth, s.id)::stale_v1
            from unnest(name_free) x
            cross join lateral (
                select t.id from securable t
                where t.parent = x.parent and t.shelf = x.shelf and t.name_key = x.key and t.dropped_at is null limit 1
            ) s
            where not exists (select from unnest(releases) r where r.i = x.i and r.id = s.id)
        );
    end if;
    if place_free is not null then
        stale := stale || array(
            select row(x.i, x.nth, coalesce(container.id, content.id))::stale_v1
            from unnest(place_free) x
            left join lateral (
                select p.securable as id from place p
                where p.path = any (x.above) and p.securable is distinct from x.by limit 1
            ) container on true
            left join lateral (
                select p.securable as id from place p
                where p.path >= x.first and p.path < x.past and p.securable is distinct from x.by limit 1
            ) content on true
            where container.id is not null or content.id is not null
        );
    end if;
    if access_is is not null then
        stale := stale || array(
            select row(x.i, x.nth, last_access)::stale_v1 from unnest(access_is) x where x.seq <> last_access
        );
    end if;
    if job_held is not null then
        stale := stale || array(
            select row(x.i, x.nth, j.state)::stale_v1
            from unnest(job_held) x left join job j on j.id = x.job left join lease l on l.job = x.job
            where j.state is distinct from 'open' or (x.fence is not null and l.fence is distinct from x.fence)
        );
    end if;
    if job_free is not null then
        stale := stale || array(
            select row(x.i, x.nth, j.id)::stale_v1
            from unnest(job_free) x
            cross join lateral (
                select k.id from job k where k.dedupe = x.dedupe and k.state = 'open' limit 1
            ) j
        );
    end if;
    if floor_at_most is not null then
        stale := stale || array(
            select row(x.i, x.nth, h.floor)::stale_v1
            from unnest(floor_at_most) x left join head h on h.table_id = x.table_id and h.ref = x.ref
            where h.floor is null or h.floor > x.version
        );
    end if;

    -- An object whose purge has begun cannot be undropped. `nth` continues after the expectations with the changes.

    if undropped is not null then
        stale := stale || array(
            select row(x.i, x.nth, null)::stale_v1 from unnest(undropped) x join securable s on s.id = x.id where s.purged
        );
    end if;

    -- Drafts that are already history. Only drafts that are sent again, are stale or have a used idempotency key are
    -- looked up in the feed. Any other draft with a known id violates the unique index, and is then sent again.

    if again or cardinality(stale) > 0 or cardinality(replays) > 0 then
        replays := replays || array(
            select row(d.i, e.seq, e.at_ms, null, null)::replay_v1
            from unnest(drafts) d join entry e on e.draft = d.id
            where again or d.i in (select s.i from unnest(stale) s union all select r.i from unnest(replays) r)
        );
    end if;

    -- Sequence numbers are gapless, because only the drafts that will be written are counted.

    seqs := array(
        select case
            when d.refused then 0
            when not d.makes_history then -1
            else last_seq + count(*) filter (where d.makes_history and not d.refused) over (order by d.i)
        end
        from (
            select x.i, x.makes_history,
                   x.i in (select s.i from unnest(stale) s union all select r.i from unnest(replays) r) as refused
            from unnest(drafts) x
        ) d
        order by d.i
    );
    -- At most one draft of a batch changes access rights. The drafts after it get the new access_seq.
    access_from := nullif(greatest(seqs[access_by], 0), 0);

    insert into entry
    select seqs[d.i], now_ms, case when seqs[d.i] >= access_from then access_from else last_access end,
           d.id, d.caller, d.api, d.request, d.body
    from unnest(drafts) d where seqs[d.i] > 0;

    if claims is not null then
        insert into receipt
        select c.caller, c.key, c.print, nullif(seqs[c.i], -1), now_ms, c.outcome, now_ms + c.lifetime_ms
        from unnest(claims) c where seqs[c.i] <> 0
        on conflict (caller, key) do update set print = excluded.print, seq = excluded.seq, at_ms = excluded.at_ms,
            outcome = excluded.outcome, until_ms = excluded.until_ms;
    end if;

    -- Objects. Names and locations are released before any are taken.

    if erased is not null then
        dead := array(select e.id from unnest(erased) e where seqs[e.i] > 0);
        delete from securable where id = any (dead);
        delete from place where securable = any (dead);
        delete from head where table_id = any (dead);
        delete from version where table_id = any (dead);
        delete from document where table_id = any (dead);
        delete from published where table_id = any (dead);
        delete from report where table_id = any (dead);
        delete from staged where table_id = any (dead);
    end if;
    if parked is not null then
        -- Name keys are moved aside, so that two objects can swap names in one draft under the unique index.
        -- No name contains U+0001, so a key with this prefix collides with no other.
        update securable s set name_key = chr(1) || s.name_key
        from unnest(parked) p where s.id = p.id and seqs[p.i] > 0;
    end if;
    if changed is not null then
        update securable s set
            parent = coalesce(c.parent, s.parent),
            name = coalesce(c.name, s.name),
            name_key = coalesce(c.name_key, ltrim(s.name_key, chr(1))),
            owner = coalesce(c.owner, s.owner),
            doc = coalesce(c.doc, s.doc),
            revision = s.revision + c.grows,
            updated_at = case when c.by is null then s.updated_at else now_ms end,
            updated_by = coalesce(c.by, s.updated_by),
            dropped_at = case c.fate when 'dropped' then now_ms when 'live' then null else s.dropped_at end,
            purge_at = case c.fate when 'dropped' then now_ms + c.hold_ms when 'live' then null else s.purge_at end,
            purged = s.purged or c.purged
        from unnest(changed) c where s.id = c.id and seqs[c.i] > 0;
    end if;
    if created is not null then
        insert into securable
        select c.id, c.kind, c.shelf, c.parent, c.name, c.name_key, c.owner, c.grows, now_ms, c.by, now_ms, c.by,
               case c.fate when 'dropped' then now_ms end, case c.fate when 'dropped' then now_ms + c.hold_ms end,
               c.purged, now_ms + c.lifetime_ms, c.doc
        from unnest(created) c where seqs[c.i] > 0;
    end if;
    if places is not null then
        insert into place select p.path, p.id from unnest(places) p
        where seqs[p.i] > 0 and not exists (select from place h where h.path = p.path and h.securable = p.id);
    end if;

    -- Lines of tables. A line is deleted before one of the same name is created, and versions are deleted last.

    if ended is not null then
        delete from head h using unnest(ended) e where h.table_id = e.table_id and h.ref = e.ref and seqs[e.i] > 0;
        delete from version v using unnest(ended) e where v.table_id = e.table_id and v.ref = e.ref and seqs[e.i] > 0;
        delete from document d using unnest(ended) e where d.table_id = e.table_id and d.ref = e.ref and seqs[e.i] > 0;
        delete from staged s using unnest(ended) e where s.table_id = e.table_id and s.ref = e.ref and seqs[e.i] > 0;
        delete from published p using unnest(ended) e where p.table_id = e.table_id and p.ref = e.ref and seqs[e.i] > 0;
    end if;
    if raised is not null then
        update head h set floor = greatest(h.floor, r.version)
        from unnest(raised) r where h.table_id = r.table_id and h.ref = r.ref and seqs[r.i] > 0;
    end if;
    if commits is not null then
        insert into version
        select c.table_id, c.ref, c.version, seqs[c.i], now_ms, c.timestamp_ms, c.operation, c.file, c.size, c.digest,
               c.target, c.source, c.details
        from unnest(commits) c where seqs[c.i] > 0;

        insert into head as h
        select c.table_id, c.ref, c.version, c.timestamp_ms, c.row_id_mark, c.floor
        from unnest(commits) c where c.newest and seqs[c.i] > 0
        on conflict (table_id, ref) do update set version = excluded.version, timestamp_ms = excluded.timestamp_ms,
            row_id_mark = coalesce(excluded.row_id_mark, h.row_id_mark), floor = greatest(h.floor, excluded.floor);
    end if;
    if to_publish is not null then
        insert into staged
        select p.table_id, p.ref, p.version, now_ms, p.bytes from unnest(to_publish) p where seqs[p.i] > 0;
    end if;
    if documents is not null then
        insert into document
        select d.table_id, d.ref, d.version, d.bytes from unnest(documents) d where seqs[d.i] > 0;

        delete from document old using unnest(documents) d
        where old.table_id = d.table_id and old.ref = d.ref and old.version < d.version - 1 and seqs[d.i] > 0;
    end if;

    if dropped is not null then
        delete from version v using unnest(dropped) d
        where v.table_id = d.table_id and v.ref = d.ref and v.version between d.first and d.last and seqs[d.i] > 0;
        delete from document v using unnest(dropped) d
        where v.table_id = d.table_id and v.ref = d.ref and v.version between d.first and d.last and seqs[d.i] > 0;
        delete from staged v using unnest(dropped) d
        where v.table_id = d.table_id and v.ref = d.ref and v.version between d.first and d.last and seqs[d.i] > 0;
    end if;

    -- Jobs. They are finished before others are created, because an open job blocks others with its dedupe key.

    if finished is not null then
        update job j set state = f.state, result = f.result, error = f.error, ended_at = now_ms
        from unnest(finished) f where j.id = f.id and seqs[f.i] > 0;
        -- The row stays: attempts and progress of an ended job are shown.
        update lease l set fence = '', until_ms = 0 from unnest(finished) f where l.job = f.id and seqs[f.i] > 0;
    end if;
    if jobs is not null then
        insert into job
        select n.id, n.kind, n.subject, n.dedupe, n.args, n.attempts, 'open', now_ms, now_ms + n.delay_ms, null, null, null
        from unnest(jobs) n where seqs[n.i] > 0
        on conflict do nothing;
    end if;
end $$;

-- Leases the oldest due job without an active lease, under the lock of the appends. An append that found the
-- previous fence valid must finish before a new fence is issued. Otherwise it could take effect after the new lease.
create function take_job_v1(
    given_ms bigint, by_worker text, kinds text[], new_fence text, lease_ms bigint, out taken text, out now_ms bigint
) language plpgsql volatile as $$
begin
    perform pg_advisory_xact_lock(7667201);
    now_ms := now_v1(given_ms);
    select j.id into taken
    from job j left join lease l on l.job = j.id
    where j.state = 'open' and j.run_at <= now_ms and j.kind = any (kinds)
      and coalesce(l.until_ms, 0) <= now_ms and coalesce(l.not_before_ms, 0) <= now_ms
    order by j.run_at, j.id limit 1;
    if taken is not null then
        insert into lease as l (job, fence, worker, until_ms, attempt)
        values (taken, new_fence, by_worker, now_ms + lease_ms, 1)
        on conflict (job) do update set fence = excluded.fence, worker = excluded.worker,
            until_ms = excluded.until_ms, attempt = l.attempt + 1;
    end if;
end $$;
