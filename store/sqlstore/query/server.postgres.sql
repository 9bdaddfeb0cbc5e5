SELECT current_setting('server_version_num')::bigint, current_setting('server_version'), current_setting('server_encoding'),
       pg_is_in_recovery(), has_database_privilege(current_database(), 'TEMP')
