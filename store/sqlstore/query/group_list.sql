SELECT id, name, description, is_public, sort, created, updated FROM subscription_groups ORDER BY sort, id
