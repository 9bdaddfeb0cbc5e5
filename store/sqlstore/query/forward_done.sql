DELETE FROM forwards WHERE part = ? AND to_part = ? AND id <= ?
