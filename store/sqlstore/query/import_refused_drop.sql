DELETE FROM import_refused WHERE import_id = ?
