SELECT entry FROM soft_bounces WHERE entry IN ($NAMES) GROUP BY entry HAVING COUNT(*) >= $LEAST
