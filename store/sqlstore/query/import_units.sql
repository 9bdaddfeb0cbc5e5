SELECT id, batches FROM import_units WHERE import_id = ? AND id < ? ORDER BY id DESC LIMIT ?
