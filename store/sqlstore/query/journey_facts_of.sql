SELECT pos_major, pos_minor, item, number, kind FROM journey_facts WHERE part = ? AND number IN ($NAMES) AND kind NOT IN (?, ?, ?)
ORDER BY pos_major, pos_minor, item, number, kind LIMIT ?
