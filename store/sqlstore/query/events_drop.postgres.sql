DELETE FROM events AS e USING unnest(?::timestamptz[], ?::text[]) AS k(t, i) WHERE e.time = k.t AND e.event_id = k.i AND e.time BETWEEN ? AND ?
