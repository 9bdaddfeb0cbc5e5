SELECT '', part, number FROM users WHERE part = ? AND number IN ($NAMES)
