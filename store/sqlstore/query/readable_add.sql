INSERT INTO schema_readable (version, readable_from) VALUES (?, ?)
