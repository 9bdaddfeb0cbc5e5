WITH k(t, i) AS (VALUES $ROWS)
SELECT time, event_id FROM k CROSS JOIN events ON time = t AND event_id = i
