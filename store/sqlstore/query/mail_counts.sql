SELECT c.pos_major, c.pos_minor, m.user_number, $COUNTS FROM (SELECT 1 AS one) AS always
LEFT JOIN (SELECT user_number, $SUMS FROM sends
  WHERE user_part = ? AND user_number IN ($NAMES) AND accepted >= ? AND state IN ('waiting', 'sent', 'in_doubt') AND ignores_caps = 0 GROUP BY user_number) AS m ON 1 = 1
LEFT JOIN cursors AS c ON c.follower = ? AND c.part = ?
