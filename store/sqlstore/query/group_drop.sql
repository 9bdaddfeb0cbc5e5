DELETE FROM subscription_groups WHERE id = ?
