INSERT INTO journey_blocks (part, journey, unit, slot, number, hash, data) VALUES $ROWS
ON DUPLICATE KEY UPDATE number = VALUES(number), hash = VALUES(hash), data = VALUES(data)
