DELETE FROM user_keys WHERE kind = ? AND name = ? AND part = ? AND number = ?
