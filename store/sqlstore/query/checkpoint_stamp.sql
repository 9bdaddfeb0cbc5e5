UPDATE journey_checkpoints SET stamp = ? WHERE part = ? AND stamp = ?
