SELECT COUNT(*), COALESCE(MAX(number), 0) FROM journeys
