UPDATE leases SET taken_at = UTC_TIMESTAMP(3) WHERE role = ? AND part = 0 AND number = ?
