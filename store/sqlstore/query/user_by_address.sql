SELECT k.name, k.part, k.number, u.updated, u.to_part, u.to_number, u.profile FROM user_addresses k
LEFT JOIN users u ON u.part = k.part AND u.number = k.number WHERE k.kind = ? AND k.name IN ($NAMES) LIMIT ?
