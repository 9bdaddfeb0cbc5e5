INSERT INTO journey_publish (id, number) VALUES (1, ?) ON CONFLICT (id) DO UPDATE SET number = journey_publish.number + 1
