INSERT INTO forwards (part, id, to_part, items) VALUES $ROWS
