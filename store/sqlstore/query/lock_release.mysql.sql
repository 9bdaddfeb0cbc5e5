UPDATE leases SET taken_at = '1971-01-01' WHERE role = ? AND part = 0 AND number = ?
