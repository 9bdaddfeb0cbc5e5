INSERT INTO sends (message, number, state, attempts, route, reply, reason, accepted, updated, due, life) VALUES $ROWS
ON DUPLICATE KEY UPDATE state = VALUES(state), attempts = VALUES(attempts), route = VALUES(route), reply = VALUES(reply), reason = VALUES(reason),
  updated = VALUES(updated), due = VALUES(due), life = VALUES(life)
