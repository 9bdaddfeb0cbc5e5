SELECT c.pos_major, c.pos_minor, l.pos_major, l.pos_minor, e.pos_major, e.pos_minor, e.item, e.time, e.event_id, e.kind, e.name, e.app_id, e.email, e.user_ref, e.message_ref, e.properties
FROM (SELECT 1 AS one) AS always
LEFT JOIN cursors AS c ON c.follower = ? AND c.part = ?
LEFT JOIN late_events AS l ON l.part = ?
LEFT JOIN (SELECT pos_major, pos_minor, item, time, event_id, kind, name, app_id, email, user_ref, message_ref, properties FROM events
  WHERE part = ? AND pos_major >= ? AND (pos_major > ? OR pos_minor > ? OR pos_minor = ? AND item > ?) $WINDOW
  ORDER BY pos_major, pos_minor, item LIMIT ?) AS e ON 1 = 1
ORDER BY e.pos_major, e.pos_minor, e.item
