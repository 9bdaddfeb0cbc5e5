INSERT INTO leases (role, part, number, taken_at) VALUES (?, ?, 1, ?)
ON CONFLICT (role, part) DO UPDATE SET number = number + 1, taken_at = excluded.taken_at
