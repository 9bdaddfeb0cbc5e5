DELETE FROM soft_bounces WHERE day = ?
