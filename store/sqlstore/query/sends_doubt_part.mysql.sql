SELECT part FROM sends WHERE state = 'in_doubt' AND part > ? ORDER BY part LIMIT 1
