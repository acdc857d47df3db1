-- oldest code that may run on this schema: 1

-- The grants on an object: a JSON object with the privileges of each principal. Null: there are none.
alter table securable add column grants blob;
