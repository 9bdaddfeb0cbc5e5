UPDATE events SET email = NULL, user_ref = NULL, message_ref = NULL, properties = NULL WHERE time = ? AND event_id = ?
