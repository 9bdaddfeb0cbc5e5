SELECT number FROM journeys WHERE status = ? ORDER BY number
