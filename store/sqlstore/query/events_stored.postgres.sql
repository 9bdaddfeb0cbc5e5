SELECT e.time, e.event_id FROM unnest(?::timestamptz[], ?::text[]) AS k(t, i) JOIN events AS e ON e.time = k.t AND e.event_id = k.i WHERE e.time BETWEEN ? AND ?
