SELECT part, pos_major, pos_minor FROM cursors WHERE follower = ?
