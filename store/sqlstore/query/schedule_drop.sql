DELETE FROM schedules WHERE id = ?
