INSERT INTO schema_version (version, name, applied_at) VALUES (?, ?, ?)
