UPDATE journey_facts SET number = ?, body = ? WHERE part = ? AND pos_major = ? AND pos_minor = ? AND item = ? AND number = ? AND kind = ?
