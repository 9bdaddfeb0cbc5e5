DELETE FROM $TABLE WHERE app_id = ? AND name = ? AND kind = ? AND bucket < ?
