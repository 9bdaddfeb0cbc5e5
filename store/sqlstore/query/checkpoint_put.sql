INSERT INTO journey_blocks (part, journey, unit, slot, number, hash, data) VALUES $ROWS
ON CONFLICT (part, journey, unit, slot) DO UPDATE SET number = excluded.number, hash = excluded.hash, data = excluded.data
