SELECT pos_major FROM cursors WHERE follower = ? AND part = 0
