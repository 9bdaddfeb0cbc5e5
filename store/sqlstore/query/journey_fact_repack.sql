UPDATE journey_facts SET pos_major = ?, pos_minor = ?, item = ?, number = ?, happened = ?, body = ?
WHERE part = ? AND pos_major = ? AND pos_minor = ? AND item = ? AND number = ? AND kind = ?
