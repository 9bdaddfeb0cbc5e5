SELECT s.message, s.number, state, class, attempts, route, reply, reason, updated, due, life, journey, step, variant
FROM unnest(?::text[], ?::integer[]) AS k(message, number) JOIN sends AS s ON s.message = k.message AND s.number = k.number
ORDER BY s.message, s.number FOR UPDATE OF s
