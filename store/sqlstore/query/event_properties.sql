UPDATE events SET properties = ? WHERE time = ? AND event_id = ?
