CREATE TABLE IF NOT EXISTS schema_version (
  version    INT          NOT NULL PRIMARY KEY,
  name       VARCHAR(190) NOT NULL,
  applied_at DATETIME(3)  NOT NULL
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4
