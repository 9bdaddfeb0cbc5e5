INSERT INTO send_totals (class, state, stripe, count, removed) VALUES $ROWS
ON DUPLICATE KEY UPDATE count = count + VALUES(count), removed = removed + VALUES(removed)
