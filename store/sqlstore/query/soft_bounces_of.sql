SELECT entry, day FROM soft_bounces WHERE entry IN ($NAMES)
