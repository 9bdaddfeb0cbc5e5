SELECT k.name, k.part, k.number, u.updated, u.to_part, u.to_number, u.profile FROM user_addresses k
LEFT JOIN users u ON $USER_OF_K WHERE k.kind = ? AND k.name IN ($NAMES) LIMIT ?
