SELECT bucket FROM $TABLE WHERE app_id = ? AND name = ? AND kind = ? AND bucket < ? ORDER BY bucket LIMIT 1 OFFSET ?
