SELECT time, event_id FROM events WHERE $KEYS
