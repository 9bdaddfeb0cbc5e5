DELETE FROM schema_readable WHERE version = ?
