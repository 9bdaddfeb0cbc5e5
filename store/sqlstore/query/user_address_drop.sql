DELETE FROM user_addresses WHERE kind = ? AND name = ? AND part = ? AND number = ?
