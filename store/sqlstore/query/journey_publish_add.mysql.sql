INSERT INTO journey_publish (id, number) VALUES (1, ?) ON DUPLICATE KEY UPDATE number = number + 1
