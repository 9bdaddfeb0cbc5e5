UPDATE journey_checkpoints SET stamp = ?, pos_major = ?, pos_minor = ?, notes = ?, saved = ? WHERE part = ? AND stamp = ?
