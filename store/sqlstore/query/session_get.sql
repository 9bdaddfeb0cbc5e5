SELECT s.created, s.ends, a.id, a.name, a.role FROM account_sessions s JOIN accounts a ON a.id = s.account WHERE s.hash = ?
