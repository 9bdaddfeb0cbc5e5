SELECT part, pos_major, pos_minor, item, to_major, to_minor, to_item, attempts, since, due FROM webhook_lanes WHERE webhook = ?
