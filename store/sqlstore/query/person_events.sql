SELECT pos_major, pos_minor, item, time, event_id, kind, name, app_id, user_ref, properties FROM events
WHERE part = ? AND pos_major <= ? AND (pos_major < ? OR pos_minor < ? OR pos_minor = ? AND item < ?) AND pos_major >= ? $WINDOW
  AND (pos_major > ? OR pos_minor > ? OR pos_minor = ? AND item >= ?) AND kind IN ('custom', 'purchase') AND user_ref IN ($NAMES)
ORDER BY part DESC, pos_major DESC, pos_minor DESC, item DESC
