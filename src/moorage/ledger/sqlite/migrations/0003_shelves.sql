-- oldest code that may run on this schema: 1

-- All objects of one kind, wherever they are. Without it, finding a few pipelines takes a statement for each namespace.
create index securable_shelf on securable (shelf, id) where dropped_at is null;
