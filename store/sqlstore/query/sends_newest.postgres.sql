SELECT $COLUMNS FROM sends WHERE (accepted AT TIME ZONE 'UTC') <= (?::timestamptz AT TIME ZONE 'UTC')
  AND ((accepted AT TIME ZONE 'UTC') < (?::timestamptz AT TIME ZONE 'UTC') OR message < ? OR (message = ? AND number < ?))
ORDER BY (accepted AT TIME ZONE 'UTC') DESC, message DESC, number DESC LIMIT ?
