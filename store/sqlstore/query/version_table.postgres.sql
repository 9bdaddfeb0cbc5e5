-- One process at a time: the lock ends with the transaction.
SET LOCAL lock_timeout = '60s';
SELECT pg_advisory_xact_lock(hashtext('sluice.migrate'), hashtext(current_schema()));
CREATE TABLE IF NOT EXISTS schema_version (
  version    integer        NOT NULL PRIMARY KEY,
  name       text           NOT NULL,
  applied_at timestamptz(3) NOT NULL
)
