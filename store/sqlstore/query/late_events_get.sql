SELECT pos_major, pos_minor FROM late_events WHERE part = ?
