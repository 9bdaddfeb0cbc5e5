SELECT MIN(day) FROM soft_bounces WHERE day < ?
