INSERT INTO sends (message, number, state, attempts, route, reply, reason, accepted, updated, due, life) VALUES $ROWS
ON CONFLICT (message, number) DO UPDATE SET state = excluded.state, attempts = excluded.attempts, route = excluded.route, reply = excluded.reply, reason = excluded.reason,
  updated = excluded.updated, due = excluded.due, life = excluded.life
