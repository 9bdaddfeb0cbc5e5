SELECT pg_size_bytes(current_setting('shared_buffers')), COALESCE(pg_total_relation_size(to_regclass('users')), 0)
