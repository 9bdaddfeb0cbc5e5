DELETE FROM journey_facts WHERE part = ? AND pos_major = ? AND pos_minor = ? AND item = ? AND number = ? AND kind = ?
