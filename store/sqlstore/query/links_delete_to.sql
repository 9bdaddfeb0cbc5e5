DELETE FROM links WHERE used < ? AND hash > ? AND hash <= ?
