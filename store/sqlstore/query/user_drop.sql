DELETE FROM users WHERE part = ? AND number = ?
