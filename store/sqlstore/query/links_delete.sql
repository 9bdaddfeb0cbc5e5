DELETE FROM links WHERE used < ? AND hash > ?
