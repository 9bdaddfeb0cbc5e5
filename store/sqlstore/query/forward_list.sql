SELECT id, to_part, items FROM forwards WHERE part = ? AND id > ? AND (to_part <> part OR id < ?) AND to_part BETWEEN ? AND ? ORDER BY id LIMIT ?
