SELECT c.oid::bigint, n.nspname::text, c.relname::text, c.relkind::text, c.relpersistence::text, row_security_active(c.oid),
       EXISTS (SELECT 1 FROM pg_rewrite r WHERE r.ev_class = c.oid AND r.ev_type = '3'),
       has_any_column_privilege(c.oid, 'INSERT'), has_any_column_privilege(c.oid, 'SELECT'),
       COALESCE((SELECT p.oid::regclass::text FROM pg_partition_tree(c.oid) t JOIN pg_class p ON p.oid = t.relid
                 WHERE p.relkind NOT IN ('r', 'p') OR p.relpersistence <> 'p' LIMIT 1), '')
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = COALESCE(to_regclass(?), to_regclass(?))
