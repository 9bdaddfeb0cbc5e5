INSERT INTO suppressions (entry, scope, app_id, reason, source, happened, ends, removed, number) VALUES $ROWS
ON CONFLICT (entry, scope, app_id, reason) DO UPDATE SET source = excluded.source, happened = excluded.happened, ends = excluded.ends, removed = excluded.removed, number = excluded.number
