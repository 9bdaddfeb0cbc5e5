SELECT id, to_part, items FROM forwards WHERE part = ? AND (to_part <> part OR id < ?) ORDER BY id LIMIT ?
