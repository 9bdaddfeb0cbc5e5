SELECT COUNT(*) FROM subscription_groups WHERE id <> ?
