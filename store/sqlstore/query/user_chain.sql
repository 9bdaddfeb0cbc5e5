WITH RECURSIVE chain (part, number, steps) AS (
  SELECT part, number, 1 FROM users WHERE part = ? AND number IN ($NAMES)
  UNION ALL
  SELECT u.to_part, u.to_number, c.steps + 1 FROM chain c
  JOIN users u ON u.part = c.part AND u.number = c.number WHERE u.to_number <> 0 AND c.steps < ?
)
SELECT '', u.part, u.number, u.updated, u.to_part, u.to_number, u.profile
FROM (SELECT DISTINCT part, number FROM chain) c JOIN users u ON u.part = c.part AND u.number = c.number
