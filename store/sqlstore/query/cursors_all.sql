SELECT follower, part, pos_major, pos_minor, updated FROM cursors ORDER BY follower, part LIMIT ?
