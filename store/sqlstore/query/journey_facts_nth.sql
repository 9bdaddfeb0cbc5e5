SELECT pos_major, pos_minor, item FROM journey_facts
WHERE part = ? AND pos_major <= ? AND (pos_major < ? OR pos_minor < ? OR pos_minor = ? AND item <= ?)
ORDER BY pos_major, pos_minor, item LIMIT 1 OFFSET ?
