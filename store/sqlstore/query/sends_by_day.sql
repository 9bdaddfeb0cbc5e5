SELECT $DAY, class, state, COUNT(*) FROM (SELECT accepted, class, state FROM sends LIMIT $LIMIT) AS counted
GROUP BY 1, class, state
