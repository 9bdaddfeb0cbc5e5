SELECT time, event_id, properties FROM events WHERE time >= ? AND time < ? AND kind = 'mail' AND name IN ('opened', 'clicked') AND (properties LIKE '%"ip":%' OR properties LIKE '%"user_agent":%'
  OR properties LIKE '%url":%' AND (properties LIKE '%@%' OR properties LIKE '%!%40%' ESCAPE '!' OR properties LIKE '%u0040%'))
ORDER BY time, event_id
