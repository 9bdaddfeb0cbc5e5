SELECT COUNT(*) FROM schedules WHERE state = ?
