-- What mail has sent and got back, counted by the hour: of which mail, and of which kind.
-- bucket is when the hour begins. Processes write rows of different stripes; add them up.
-- Readable from version 29
CREATE TABLE IF NOT EXISTS reactions (
  bucket       DATETIME(3)       NOT NULL,
  stripe       SMALLINT UNSIGNED NOT NULL,
  campaign     VARCHAR(128)      NOT NULL,
  journey      VARCHAR(64)       NOT NULL,
  step         VARCHAR(64)       NOT NULL,
  variant      VARCHAR(64)       NOT NULL,
  kind         VARCHAR(16)       NOT NULL,
  link         SMALLINT UNSIGNED NOT NULL,
  machine      TINYINT UNSIGNED  NOT NULL,
  count        BIGINT            NOT NULL,
  firsts       BIGINT            NOT NULL,
  human_firsts BIGINT            NOT NULL,
  PRIMARY KEY (bucket, stripe, campaign, journey, step, variant, kind, link, machine)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=$BIN;
