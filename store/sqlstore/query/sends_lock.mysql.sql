SELECT message, number, state, class, attempts, route, reply, reason, updated, due, life, journey, step, variant FROM sends WHERE $KEYS FOR UPDATE
