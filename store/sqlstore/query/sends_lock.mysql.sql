SELECT message, number, state, class, attempts, route, reply, reason, updated, due, life FROM sends WHERE $KEYS FOR UPDATE
