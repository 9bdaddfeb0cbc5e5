UPDATE journey_publish SET number = CASE WHEN number < ? THEN ? ELSE number + 1 END WHERE id = 1
