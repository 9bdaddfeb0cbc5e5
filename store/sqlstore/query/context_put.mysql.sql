INSERT INTO journey_context (part, number, journey, entered, occurrence, body, ended) VALUES $ROWS
ON DUPLICATE KEY UPDATE entered = VALUES(entered), occurrence = VALUES(occurrence), body = VALUES(body), ended = VALUES(ended)
