SELECT $DAY, class, state, COUNT(*) FROM (SELECT accepted, class, state FROM sends ORDER BY accepted DESC LIMIT $LIMIT) AS newest
GROUP BY 1, class, state
