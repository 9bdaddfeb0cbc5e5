DELETE FROM import_units WHERE import_id = ?
