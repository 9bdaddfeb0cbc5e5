CREATE TABLE IF NOT EXISTS schema_readable (
  version       INTEGER NOT NULL PRIMARY KEY,
  readable_from INTEGER NOT NULL
) STRICT
