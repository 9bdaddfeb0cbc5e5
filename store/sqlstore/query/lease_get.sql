SELECT number FROM leases WHERE role = ? AND part = ?
