-- oldest code that may run on this schema: 1

-- The grants on an object: a JSON object with the privileges of each principal. Null: there are none.
alter table securable add column grants bytea;

create type grants_v1 as (i int, id text, grants bytea);

-- append_v1 for a batch in which a draft changes grants. The revision of its object is in `changed`.
create function append_v2(
    given_ms bigint, drafts draft_v1[], again boolean, access_by int, claims claim_v1[],
    head_is head_is_v1[], live object_is_v1[], revision_is revision_is_v1[], is_empty object_is_v1[],
    name_free name_free_v1[], releases object_v1[], place_free place_free_v1[], access_is access_is_v1[],
    job_held job_held_v1[], job_free job_free_v1[], floor_at_most floor_v1[], undropped object_is_v1[],
    erased object_v1[], parked object_v1[], changed securable_v1[], created securable_v1[], places place_v1[],
    ended line_v1[], raised floor_v1[], commits commit_v1[], to_publish bytes_v1[], documents bytes_v1[],
    dropped span_v1[], finished finish_v1[], jobs job_v1[],
    granted grants_v1[],
    out now_ms bigint, out seqs bigint[], out stale stale_v1[], out replays replay_v1[]
) language plpgsql volatile as $$
begin
    select a.now_ms, a.seqs, a.stale, a.replays into now_ms, seqs, stale, replays
    from append_v1(
        given_ms, drafts, again, access_by, claims, head_is, live, revision_is, is_empty, name_free,
        releases, place_free, access_is, job_held, job_free, floor_at_most, undropped, erased, parked,
        changed, created, places, ended, raised, commits, to_publish, documents, dropped, finished, jobs
    ) a;
    update securable s set grants = g.grants from unnest(granted) g where s.id = g.id and seqs[g.i] > 0;
end $$;
