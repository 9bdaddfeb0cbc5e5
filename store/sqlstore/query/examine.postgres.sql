SELECT current_setting('server_version_num')::bigint, current_setting('server_version'), current_setting('server_encoding'),
       pg_is_in_recovery() OR current_setting('default_transaction_read_only') = 'on', has_database_privilege(current_database(), 'TEMP'),
       current_setting('TimeZone'), COALESCE(current_schema(), ''), COALESCE(has_schema_privilege(current_schema(), 'CREATE'), false),
       COALESCE((SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = to_regclass('events')), true)
