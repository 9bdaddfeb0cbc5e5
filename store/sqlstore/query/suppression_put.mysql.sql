INSERT INTO suppressions (entry, scope, app_id, reason, source, happened, ends, removed, number) VALUES $ROWS
ON DUPLICATE KEY UPDATE source = VALUES(source), happened = VALUES(happened), ends = VALUES(ends), removed = VALUES(removed), number = VALUES(number)
