INSERT INTO leases (role, part, number, taken_at) VALUES (?, 0, 1, UTC_TIMESTAMP(3))
