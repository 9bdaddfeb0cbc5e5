CREATE TABLE IF NOT EXISTS schema_readable (
  version       integer NOT NULL PRIMARY KEY,
  readable_from integer NOT NULL
)
