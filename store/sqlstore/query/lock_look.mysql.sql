SELECT number, taken_at < UTC_TIMESTAMP(3) - INTERVAL ? SECOND FROM leases WHERE role = ? AND part = 0
