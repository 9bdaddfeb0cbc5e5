SELECT k.name, u.part, u.number FROM user_keys AS k JOIN users AS u ON u.part = k.part AND u.number = k.number WHERE k.kind = ? AND k.name IN ($NAMES)
