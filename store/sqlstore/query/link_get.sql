SELECT target FROM links WHERE hash = ?
