DELETE FROM soft_bounces WHERE day < ? AND entry > ? AND entry <= ?
