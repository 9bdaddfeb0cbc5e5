INSERT INTO import_units (import_id, id, batches) VALUES (?, ?, ?)
