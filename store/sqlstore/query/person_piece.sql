SELECT pos_major, pos_minor, item, COUNT(*) OVER () FROM (SELECT pos_major, pos_minor, item FROM events
  WHERE part = ? AND pos_major <= ? AND (pos_major < ? OR pos_minor < ? OR pos_minor = ? AND item < ?) AND pos_major >= ? $WINDOW
  ORDER BY part DESC, pos_major DESC, pos_minor DESC, item DESC LIMIT ?) AS piece
ORDER BY pos_major, pos_minor, item LIMIT 1
