SELECT c.pos_major, c.pos_minor, m.user_number, $COUNTS FROM (SELECT 1 AS one) AS always
LEFT JOIN (SELECT person AS user_number, $SUMS FROM (SELECT user_number AS person, message AS m, number AS n FROM sends WHERE user_part = ? AND user_number IN ($NAMES) AND +accepted >= ?) AS k
  CROSS JOIN sends ON message = m AND number = n WHERE state IN ('waiting', 'sent', 'in_doubt') AND ignores_caps = 0 GROUP BY person) AS m ON 1 = 1
LEFT JOIN cursors AS c ON c.follower = ? AND c.part = ?
