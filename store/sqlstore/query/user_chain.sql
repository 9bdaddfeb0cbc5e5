WITH RECURSIVE chain (part, number, steps) AS (
  SELECT part, number, 1 FROM users WHERE $USERS
  UNION ALL
  SELECT u.to_part, u.to_number, k.steps + 1 FROM chain k
  JOIN users u ON $USER_OF_K WHERE u.to_number <> 0 AND k.steps < ?
)
SELECT '', u.part, u.number, u.updated, u.to_part, u.to_number, u.profile
FROM (SELECT DISTINCT part, number FROM chain) k JOIN users u ON $USER_OF_K
