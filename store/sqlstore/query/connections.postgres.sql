-- What the server leaves to users without rights of their own, or the role's or the database's bound if that is
-- less (-1: none); and what is in use of it.
SELECT LEAST(
         current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int,
         CASE WHEN r.rolconnlimit < 0 THEN 2147483647 ELSE r.rolconnlimit END,
         CASE WHEN d.datconnlimit < 0 THEN 2147483647 ELSE d.datconnlimit END),
       (SELECT COUNT(*) FROM pg_stat_activity WHERE backend_type = 'client backend')
FROM pg_roles r, pg_database d WHERE r.rolname = current_user AND d.datname = current_database()
