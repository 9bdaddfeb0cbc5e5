SELECT b.message FROM bodies b WHERE b.n = 0 AND b.created < ?
  AND NOT EXISTS (SELECT 1 FROM sends s WHERE s.message = b.message AND (s.state IN ('waiting', 'in_doubt') OR s.due IS NOT NULL))
ORDER BY b.message LIMIT ?
