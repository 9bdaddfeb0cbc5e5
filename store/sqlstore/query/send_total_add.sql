INSERT INTO send_totals AS t (class, state, stripe, count, removed) VALUES $ROWS
ON CONFLICT (class, state, stripe) DO UPDATE SET count = t.count + excluded.count, removed = t.removed + excluded.removed
