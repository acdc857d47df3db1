-- oldest code that may run on this schema: 1

-- All tables and all pipelines, wherever they are. Without it, finding a few pipelines takes a statement for each namespace.
-- The shelf is no column of the index: PostgreSQL would use it to look for a name, and read the whole shelf.
create index securable_pipeline on securable (id) where shelf = 'pipeline' and dropped_at is null;
create index securable_relation on securable (id) where shelf = 'relation' and dropped_at is null;
