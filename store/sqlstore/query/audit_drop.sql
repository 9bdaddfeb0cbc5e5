DELETE FROM audit_log WHERE id < ?
