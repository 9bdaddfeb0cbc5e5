WITH k(m, n) AS (VALUES $ROWS)
SELECT message, number, state, class, attempts, route, reply, reason, updated, due, life, journey, step, variant FROM k CROSS JOIN sends ON message = m AND number = n
