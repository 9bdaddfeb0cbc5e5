CREATE TABLE IF NOT EXISTS schema_readable (
  version       INT NOT NULL PRIMARY KEY,
  readable_from INT NOT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4
