SELECT COALESCE(MAX(version), 0), COALESCE(MAX(readable_from), 0) FROM schema_readable
