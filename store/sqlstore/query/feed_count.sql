SELECT kind, name, COUNT(*) FROM (SELECT kind, name FROM events
  WHERE part = ? AND pos_major >= ? AND (pos_major > ? OR pos_minor > ? OR pos_minor = ? AND item > ?)
  AND pos_major <= ? AND (pos_major < ? OR pos_minor < ? OR pos_minor = ? AND item <= ?) $ONLY LIMIT ?) AS e GROUP BY kind, name
