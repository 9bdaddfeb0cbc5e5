SELECT c.relname::text, COALESCE(SUBSTRING(pg_get_expr(c.relpartbound, c.oid) FROM 'TO \(''([0-9-]+)'), '') AS ends
FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'events'::regclass AND c.relispartition ORDER BY ends
