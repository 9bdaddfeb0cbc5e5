INSERT INTO leases (role, part, number, taken_at) VALUES (?, ?, 1, ?)
ON DUPLICATE KEY UPDATE number = number + 1, taken_at = VALUES(taken_at)
