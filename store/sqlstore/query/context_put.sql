INSERT INTO journey_context (part, number, journey, entered, occurrence, body, ended) VALUES $ROWS
ON CONFLICT (part, number, journey) DO UPDATE SET entered = excluded.entered, occurrence = excluded.occurrence, body = excluded.body, ended = excluded.ended
