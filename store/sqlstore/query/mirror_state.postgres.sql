SELECT pos_major, pos_minor FROM cursors WHERE follower = ? AND part = 0 FOR SHARE
