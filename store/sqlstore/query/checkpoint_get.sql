SELECT part, stamp, pos_major, pos_minor, notes, saved FROM journey_checkpoints WHERE part = ?
