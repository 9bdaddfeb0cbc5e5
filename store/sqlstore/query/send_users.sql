SELECT k.name, u.part, u.number FROM user_keys AS k JOIN users AS u ON $USER_OF_K WHERE k.kind = ? AND k.name IN ($NAMES)
